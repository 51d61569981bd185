#pragma once

#include "doctor/backends/backend_finding.h"
#include "doctor/finding/backend_check.h"
#include "doctor/host/host_files.h"
#include "doctor/host/privileges.h"

namespace farpage::doctor {

extern const BackendCheck kShmCheck;

// How far sharing memory as a node does it has come.
struct ShmFacts {
  enum class Step : uint8_t { kCreate, kSize, kMap, kSeal, kReadOnly, kDone };

  Step failed = Step::kDone;
  int error = 0;              // errno of the step that failed
  uint64_t memfd_noexec = 0;  // vm.memfd_noexec, Linux 6.3
};

ShmFacts read_shm(const HostFiles& files);

Finding check_shm(const ShmFacts& facts, const Wanted& wanted, const Privileges& privileges);

}  // namespace farpage::doctor
