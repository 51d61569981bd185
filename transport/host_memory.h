#pragma once

#include "base/status.h"
#include "transport/memory.h"

namespace farpage {

// Refuses memory of another kind, for a backend that moves pages only between host memory.
inline Result<void> require_host_memory(MemoryPlace place) {
  if (place.is_host()) return {};
  return fail(Code::kInvalid, place_name(place) +
                                  " cannot be registered, because this backend moves pages between "
                                  "host memory alone: register host memory and copy from there");
}

}  // namespace farpage
