#pragma once

#include <array>
#include <boost/json/fwd.hpp>
#include <cstdint>
#include <functional>
#include <string>

#include "base/histogram.h"
#include "base/status.h"
#include "base/units.h"
#include "tier/client.h"

namespace farpage {

struct PushBenchOptions {
  uint64_t page_bytes = 64 * kKiB;
  uint64_t batch = 256;              // pages a push
  uint64_t group = 16;               // pages an immediate
  uint64_t pool_bytes = 256 * kMiB;  // the node's memory that is filled with pages and drawn from
  double seconds = 5;                // of pushing
  std::string name_space = "bench";

  Result<void> validate() const;
};

struct PushBenchResult {
  bool interrupted = false;
  uint64_t pages_stored = 0;  // drawn from at random
  uint64_t pushes = 0;
  PushStats lane;
  std::array<uint64_t, kReasons> verdicts = {};  // by reason; kNone: ready
  uint64_t checked_pages = 0;                    // of the landed ones, byte for byte
  uint64_t wrong_bytes = 0;
  Histogram push_ns;       // from the call until all its verdicts are there
  double pages_per_s = 0;  // that were ready
};

// Fills the node with pages, then has it push pages drawn at random, one push after the other.
// Landed pages are compared with the truth now and then, outside of the measured time.
Result<PushBenchResult> run_push_bench(
    Client& client, const PushBenchOptions& options, const std::function<bool()>& interrupted,
    const std::function<void(uint64_t done, uint64_t total)>& filled);

struct PushReport {
  const PushBenchOptions& options;
  const PushBenchResult& result;
  const Capabilities& capabilities;
  std::string version;
  bool verify = true;
  bool own_node = true;
};
boost::json::object push_json(const PushReport& report);
std::string push_table(const PushReport& report);

}  // namespace farpage
