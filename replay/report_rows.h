#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "replay/report.h"

namespace farpage {

// The table of a replay: what it is, and its value with the unit.
std::vector<std::pair<std::string, std::string>> report_rows(const ReplayReport& report);

// Shares of the demanded pages that needed no recomputing.
struct HitRatePoint {
  uint64_t last_request = 0;
  double window = 0;        // in this window, held locally or ready
  double window_local = 0;  // in this window, held locally
  double cumulative = 0;    // from the start until here, held locally or ready
};
std::vector<HitRatePoint> hit_rates(const ReplayResult& result);

}  // namespace farpage
