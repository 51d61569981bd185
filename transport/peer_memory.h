#pragma once

#include <cstdint>

#include "base/memory/mapping.h"
#include "base/status.h"
#include "transport/memory.h"

namespace farpage {

inline constexpr uint64_t kMaxRegionBytes = uint64_t{1} << 46;

// Whether this process may take so much memory for its peers, also where it comes little by little:
// who was promised it may write all of it. `pinned`: the backend will lock it at once.
Result<void> check_peer_memory(uint64_t bytes, Access access, bool pinned);

// That memory, zeroed. Memory that peers read is present before this returns; memory that they
// write comes as they write it, or as the backend pins it.
Result<Mapping> take_peer_memory(uint64_t bytes, Access access, bool pinned);

// Why an initiator cannot use its peer's region as it wants to, whatever the backend; null: it can.
inline const char* why_unusable(const RegionExport& region, const RegionUse& use) {
  if (region.bytes == 0 || region.bytes > kMaxRegionBytes) return "its size is impossible";
  if (!region.place.is_host()) return "it is not host memory";
  if (region.access != Access::kRemoteRead && region.access != Access::kRemoteWrite) {
    return "it is not for peers";
  }
  if (region.access != use.access) return "its access is not what its use needs";
  if (region.bytes < use.bytes) return "it is smaller than its use needs";
  return nullptr;
}

}  // namespace farpage
