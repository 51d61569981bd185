#pragma once

#include <boost/json/fwd.hpp>
#include <string>

#include "base/histogram.h"

namespace farpage {

// {"count", "p50", "p90", "p99", "p999", "p9999"} in microseconds, of a histogram of nanoseconds;
// null where too few samples lie beyond the percentile.
boost::json::object latency_json(const Histogram& nanoseconds);

// The same for people: "p50 4.1, p90 5.0, p99 7.3, p99.9 -, p99.99 - µs".
std::string latency_text(const Histogram& nanoseconds);

}  // namespace farpage
