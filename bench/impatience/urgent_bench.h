#pragma once

#include <boost/json/fwd.hpp>
#include <cstdint>
#include <functional>
#include <string>

#include "base/histogram.h"
#include "base/status.h"
#include "base/units.h"
#include "tier/client.h"

namespace farpage {

struct UrgentBenchOptions {
  uint64_t page_bytes = 64 * kKiB;
  uint64_t beside = 1024;                   // pages of the fetch that stands in front
  uint64_t deadline_us = 2'000;             // that the one page has
  uint64_t others_deadline_us = 1'000'000;  // that those have
  uint64_t rounds = 30;
  std::string name_space = "bench";

  Result<void> validate() const;
};

struct UrgentBenchResult {
  bool interrupted = false;
  uint64_t rounds = 0;
  Histogram alone_ns;   // the page's verdict, with nothing else on the lane
  Histogram behind_ns;  // the same, asked for right after the others
  Histogram others_ns;  // until the others all have theirs
  uint64_t ready = 0;   // of the pages behind the others
  uint64_t others_ready = 0;
  uint64_t channels_ended = 0;
  uint64_t checked_pages = 0;
  uint64_t wrong_bytes = 0;
};

// Asks for many pages with much time, and right behind them, on the same lane, for one with little.
Result<UrgentBenchResult> run_urgent_bench(
    Client& client, const UrgentBenchOptions& options, const std::function<bool()>& interrupted,
    const std::function<void(uint64_t done, uint64_t total)>& filled);

struct UrgentReport {
  const UrgentBenchOptions& options;
  const UrgentBenchResult& result;
  const Capabilities& capabilities;
  std::string version;
};
boost::json::object urgent_json(const UrgentReport& report);
std::string urgent_table(const UrgentReport& report);

}  // namespace farpage
