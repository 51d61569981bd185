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

struct TurnBenchOptions {
  uint64_t page_bytes = 4 * kKiB;
  uint64_t batch = 64;  // pages a fetch
  uint64_t pool_bytes = 4 * kMiB;
  uint64_t rounds = 10;  // paths that end
  double seconds = 0.5;  // between two of them
  std::string name_space = "bench";

  Result<void> validate() const;
};

// Turns of the lane: Lane::progress() calls, and Lane::fetch(), which begins pages.
struct TurnBenchResult {
  bool interrupted = false;
  Histogram steady_ns;  // while all is well
  Histogram ending_ns;  // from the moment when nothing comes any more until a page is ready again
  uint64_t steady_most_ns = 0;
  uint64_t ending_most_ns = 0;
  uint64_t channels_ended = 0;
  uint64_t ready = 0;
};

// Drives one lane, and has its path end over and over: `hold` true keeps what is posted from then
// on for longer than a read may take, false no more.
Result<TurnBenchResult> run_turn_bench(
    Client& client, const TurnBenchOptions& options, const std::function<void(bool)>& hold,
    const std::function<bool()>& interrupted,
    const std::function<void(uint64_t done, uint64_t total)>& filled);

struct TurnReport {
  const TurnBenchOptions& options;
  const TurnBenchResult& result;
  const Capabilities& capabilities;
  std::string version;
};
boost::json::object turn_json(const TurnReport& report);
std::string turn_table(const TurnReport& report);

}  // namespace farpage
