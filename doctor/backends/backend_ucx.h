#pragma once

#include <string>

#include "doctor/backends/backend_finding.h"
#include "doctor/finding/backend_check.h"
#include "doctor/host/host_files.h"
#include "doctor/host/privileges.h"

namespace farpage::doctor {

extern const BackendCheck kUcxCheck;

struct UcxFacts {
  std::string libucp;       // the path of libucp; empty: it is not installed
  bool has_module = false;  // Wanted::ucx_module is there
};

UcxFacts read_ucx(const HostFiles& files, const Wanted& wanted);

Finding check_ucx(const UcxFacts& facts, const Wanted& wanted, const Privileges& privileges);

}  // namespace farpage::doctor
