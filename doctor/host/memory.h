#pragma once

#include <vector>

#include "base/memory/system_memory.h"
#include "doctor/finding/finding.h"
#include "doctor/finding/wanted.h"
#include "doctor/host/host_files.h"
#include "doctor/host/privileges.h"

namespace farpage::doctor {

struct MemoryFacts {
  MemoryLeft left;
  uint64_t overcommit = 0;          // vm.overcommit_memory
  uint64_t uncommitted_bytes = 0;   // CommitLimit less Committed_AS
  uint64_t max_map_count = 65'530;  // vm.max_map_count
};

MemoryFacts read_memory(const HostFiles& files);

Finding check_available(const MemoryFacts& facts, const Wanted& wanted);
Finding check_cgroup(const MemoryFacts& facts, const Wanted& wanted, const Privileges& privileges);
Finding check_overcommit(const MemoryFacts& facts, const Wanted& wanted,
                         const Privileges& privileges);
Finding check_map_count(const MemoryFacts& facts, const Wanted& wanted,
                        const Privileges& privileges);

}  // namespace farpage::doctor
