#pragma once

#include <span>

#include "base/status.h"
#include "tier/request/page_request.h"

namespace farpage {

// No two pages of a fetch land in the same bytes: both would be `ready`, and one of them would be
// wrong. A comparison for each page where their addresses rise; elsewhere it sorts them.
// kInvalid: the sentence names the two.
Result<void> require_apart(std::span<const PageRequest> requests);

// Where the pages of a fetch land; host memory, if it only asks. kInvalid: in memory of several
// kinds or GPUs.
Result<MemoryPlace> place_of(std::span<const PageRequest> requests);

}  // namespace farpage
