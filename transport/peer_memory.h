#pragma once

#include <cstdint>

#include "base/mapping.h"
#include "base/status.h"
#include "transport/memory.h"

namespace farpage {

inline constexpr uint64_t kMaxRegionBytes = uint64_t{1} << 46;

// Memory of this process for its peers, zeroed. What they read is present before this returns; what
// they write comes as they write it.
Result<Mapping> take_peer_memory(uint64_t bytes, Access access);

// What a channel looks at first in a region of its peer's.
inline const char* why_impossible(const RegionExport& region) {
  if (region.bytes == 0 || region.bytes > kMaxRegionBytes) return "its size is impossible";
  if (region.kind != MemoryKind::kHost) return "it is not host memory";
  if (region.access != Access::kRemoteRead && region.access != Access::kRemoteWrite) {
    return "it is not for peers";
  }
  return nullptr;
}

}  // namespace farpage
