#pragma once

#include <cstdint>

#include "transport/ucx/ucx_fabric.h"

namespace farpage {

inline constexpr uint64_t kPeerBytes = 1 << 20;
inline constexpr int kPeerFill = 0x5A;

}  // namespace farpage
