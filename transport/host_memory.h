#pragma once

#include "base/status.h"
#include "transport/memory.h"
#include "transport/operation.h"

namespace farpage {

// What a backend that moves pages between host memory alone says to memory of another kind, before
// it registers it, and before it posts an operation on it.

inline Result<void> require_host_memory(MemoryPlace place) {
  if (place.is_host()) return {};
  return fail(Code::kInvalid, place_name(place) +
                                  " cannot be registered, because this backend moves pages between "
                                  "host memory alone: register host memory and copy from there");
}

inline Status require_host_memory(const Operation& operation) {
  for (int i = 0; i < operation.local_count; ++i) {
    if (operation.local[i].place.is_host()) continue;
    return {Code::kInvalid, 0, "a slice is GPU memory, and this backend moves host memory alone"};
  }
  return {};
}

}  // namespace farpage
