#pragma once

#include <string>

#include "bench/chaos/processes/engine.h"

namespace farpage::processes {

// Fetches every kept key, some at a time: whether all of them were ready within `in_ns` each.
bool all_served(Engine& engine, const Keys& keys, uint64_t in_ns);
// … were put and acknowledged.
bool all_put(Engine& engine, const Keys& keys, uint64_t in_ns);

// Whether it answers by then what every client asks it.
bool etcd_serves(const std::string& endpoints, uint64_t deadline_ns);

}  // namespace farpage::processes
