#pragma once

#include <cstddef>
#include <cstdint>

#include "integrity/page_header.h"

namespace farpage {

// The state of a page ahead of its demand.
struct PageAhead {
  enum class State : uint8_t { kNone, kUnderWay, kHere };

  State state = State::kNone;
  // kHere: where its payload lies until the lane is called again, and which version it is.
  const std::byte* payload = nullptr;
  Version version = 0;
};

}  // namespace farpage
