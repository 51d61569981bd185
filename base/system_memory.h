#pragma once

#include <cstdint>
#include <string>

namespace farpage {

// The bytes that this process can still take without being killed: the least of MemAvailable and
// what each memory cgroup above it (version 1 or 2) leaves. `root` is prepended to /proc and /sys,
// for tests.
uint64_t available_memory_bytes(const std::string& root = "");

}  // namespace farpage
