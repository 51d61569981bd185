#pragma once

#include <string_view>

#include "base/status.h"
#include "lab/vtime/lower_tiers.h"

namespace farpage::live {

// A link as on a command line: LATENCY,RATE, such as 25us,10GB/s or 1.5ms,800Mb/s. The same link in
// virtual time.
Result<vtime::TierOptions> parse_link(std::string_view text);

}  // namespace farpage::live
