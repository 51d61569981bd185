#pragma once

#include "base/status.h"
#include "transport/memory.h"

namespace farpage {

// What a backend that moves pages between host memory alone says to memory of another kind.
inline Result<void> require_host_memory(MemoryPlace place) {
  if (place.is_host()) return {};
  return fail(Code::kInvalid, place_name(place) +
                                  " cannot be registered, because this backend moves pages between "
                                  "host memory alone: register host memory and copy from there");
}

}  // namespace farpage
