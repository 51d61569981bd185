#pragma once

#include <cstdint>
#include <string>

namespace farpage {

struct MemoryLeft {
  uint64_t system_bytes = UINT64_MAX;  // MemAvailable
  uint64_t cgroup_bytes = UINT64_MAX;  // the least that any memory cgroup above leaves; this one:
  uint64_t limit_bytes = UINT64_MAX;
  std::string limit_file;
};

// Memory that this process can still take, by the system and by its memory cgroups (version 1 or
// 2). Memory that the kernel can give back, the files' pages above all, counts as free. `root` is
// prepended to /proc and /sys, for tests.
MemoryLeft memory_left(const std::string& root = "");

// The bytes that this process can still take without being killed: the lesser of the two.
uint64_t available_memory_bytes(const std::string& root = "");

}  // namespace farpage
