#pragma once

#include <array>
#include <boost/json/fwd.hpp>
#include <cstdint>
#include <functional>
#include <string>

#include "base/histogram.h"
#include "base/runtime.h"
#include "base/status.h"
#include "base/units.h"
#include "tier/client.h"

namespace farpage {

struct StaleBenchOptions {
  uint64_t page_bytes = 4 * kKiB;
  uint64_t batch = 64;  // pages a fetch
  uint64_t lanes = 4;   // each with a thread
  uint64_t pool_bytes = 4 * kMiB;
  double seconds = 5;
  std::string name_space = "bench";

  Result<void> validate() const;
};

struct StaleBenchResult {
  bool interrupted = false;
  double pages_per_s = 0;                        // that got a verdict, of all lanes
  std::array<uint64_t, kReasons> verdicts = {};  // by reason; kNone: ready
  Histogram callback_wait_ns;  // from the call of Runtime::after(0) until its callback runs
  uint64_t longest_wait_ns = 0;
  uint64_t unreachable_looks = 0;  // of as many: no node had a lease with the client
};

// Fetches pages in a version that no node has, all the time, over some lanes: each is stale, and
// would be reported. Meanwhile it asks for a callback of the client's runtime every now and then,
// whose thread renews the leases and hears the answers to puts.
Result<StaleBenchResult> run_stale_bench(
    Client& client, Runtime& runtime, const StaleBenchOptions& options,
    const std::function<bool()>& interrupted,
    const std::function<void(uint64_t done, uint64_t total)>& filled);

struct StaleReport {
  const StaleBenchOptions& options;
  const StaleBenchResult& result;
  const Capabilities& capabilities;
  std::string version;
};
boost::json::object stale_json(const StaleReport& report);
std::string stale_table(const StaleReport& report);

}  // namespace farpage
