#pragma once

#include <string>
#include <vector>

#include "chaos/processes/engine.h"

namespace farpage::processes {

// Fetches every kept key, some at a time: whether all of them were ready within `in_ns` each.
bool all_served(Engine& engine, const Keys& keys, uint64_t in_ns);
// Fetches these keys, as that does: those that are no more. `unknown` are then those whose presence
// no client has reported.
std::vector<size_t> find_missing(Engine& engine, std::vector<size_t>& unknown, uint64_t in_ns);
// Puts every kept key: whether all were acknowledged.
bool all_put(Engine& engine, const Keys& keys, uint64_t in_ns);

// Whether it answers by then what every client asks it.
bool etcd_serves(const std::string& endpoints, uint64_t deadline_ns);

}  // namespace farpage::processes
