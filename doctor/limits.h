#pragma once

#include "doctor/finding/finding.h"
#include "doctor/finding/wanted.h"
#include "doctor/host/privileges.h"

namespace farpage::doctor {

// A limit of this process; UINT64_MAX: none.
struct LimitFacts {
  uint64_t soft = 0;
  uint64_t hard = 0;
};

// RLIMIT_MEMLOCK, RLIMIT_NOFILE.
LimitFacts read_limit(int resource);

// `rdma_devices`: that a node here uses. The kernel counts memory once for each that it is
// registered with.
Finding check_memlock(const LimitFacts& facts, size_t rdma_devices, const Wanted& wanted,
                      const Privileges& privileges);
Finding check_descriptors(const LimitFacts& facts, size_t rdma_devices, const Wanted& wanted,
                          const Privileges& privileges);

}  // namespace farpage::doctor
