#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace farpage::doctor {

// A set of backends: a sum of their bits.
using BackendSet = uint8_t;

inline constexpr BackendSet kShm = 1;
inline constexpr BackendSet kTcp = 2;
inline constexpr BackendSet kVerbs = 4;
inline constexpr BackendSet kUcx = 8;
inline constexpr BackendSet kCuda = 16;
inline constexpr BackendSet kEveryBackend = 31;

std::optional<BackendSet> find_backend(std::string_view name);
// "shm, tcp"
std::string backend_names(BackendSet backends);

}  // namespace farpage::doctor
