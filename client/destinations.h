#pragma once

#include <span>

#include "base/status.h"
#include "tier/client.h"

namespace farpage {

// No two pages of a fetch land in the same bytes: both would be `ready`, and one of them would be
// wrong. A comparison for each page where their addresses rise; elsewhere it sorts them.
// kInvalid: the sentence names the two.
Result<void> require_apart(std::span<const PageRequest> requests);

// Where the pages of a fetch land, or those of a put lie; host memory, if there are none, or it
// only asks. kInvalid: memory of several kinds, GPUs or regions of blocks (PagedRegion), or no
// whole block of such a region.
Result<MemoryPlace> place_of(std::span<const PageRequest> requests);
Result<MemoryPlace> place_of(std::span<const PutRequest> requests);

}  // namespace farpage
