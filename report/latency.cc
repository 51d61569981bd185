#include "report/latency.h"

#include <fmt/format.h>

#include <array>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <optional>

namespace farpage {
namespace {

struct Percentile {
  const char* key;
  const char* name;
  double q;
};

constexpr std::array<Percentile, 5> kPercentiles = {{{"p50", "p50", 0.5},
                                                     {"p90", "p90", 0.9},
                                                     {"p99", "p99", 0.99},
                                                     {"p999", "p99.9", 0.999},
                                                     {"p9999", "p99.99", 0.9999}}};

}  // namespace

boost::json::object latency_json(const Histogram& nanoseconds) {
  boost::json::object object = {{"count", nanoseconds.count()}};
  for (const Percentile& percentile : kPercentiles) {
    const std::optional<double> ns = nanoseconds.supported_quantile(percentile.q);
    object[percentile.key] = ns ? boost::json::value(*ns / 1e3) : nullptr;
  }
  return object;
}

std::string latency_text(const Histogram& nanoseconds) {
  std::string text;
  for (const Percentile& percentile : kPercentiles) {
    const std::optional<double> ns = nanoseconds.supported_quantile(percentile.q);
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", percentile.name,
                        ns ? fmt::format("{:.{}f}", *ns / 1e3, *ns < 1e5 ? 1 : 0) : "-");
  }
  return text + " µs";
}

}  // namespace farpage
