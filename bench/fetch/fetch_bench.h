#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>

#include "base/histogram.h"
#include "base/status.h"
#include "base/units.h"
#include "tier/client.h"

namespace farpage {

struct FetchBenchOptions {
  uint64_t page_bytes = 64 * kKiB;
  uint64_t batch = 64;         // pages a fetch
  uint64_t depth = 1;          // fetches in flight on each connection
  uint64_t connections = 1;    // each a lane with a thread of its own
  uint64_t pool_bytes = kGiB;  // the node's memory that is filled with pages and drawn from
  double seconds = 5;          // of fetching
  bool in_put_order = false;   // a fetch asks for pages that were put one after the other
  bool hedge = false;          // where there are replicas
  uint64_t deadline_us = 30'000'000;
  // Of the fetches, with a tenth of what half of the others take as their time.
  double impossible_share = 0;
  std::string name_space = "bench";

  Result<void> validate() const;
};

struct FetchBenchResult {
  bool interrupted = false;
  uint64_t pages_stored = 0;  // drawn from
  uint64_t fetches = 0;
  uint64_t ready = 0;
  std::array<uint64_t, kReasons> recompute = {};
  // Of the fetches that could not be in time; what else is counted is of the others.
  uint64_t impossible_fetches = 0;
  uint64_t impossible_ready = 0;  // pages
  uint64_t channels_ended = 0;    // while fetching
  uint64_t checked_pages = 0;     // of the landed ones, byte for byte
  uint64_t wrong_bytes = 0;
  Histogram fetch_ns;      // from the call until all its verdicts are there
  double pages_per_s = 0;  // sums over the connections
  double copied_pages_per_s =
      0;  // plain memcpy of the same pages to the same places; 0: nothing is mapped
  double client_cpu_s = 0;  // of this process, all threads, while fetching
  double node_cpu_s = 0;    // of the node, in as much time
  uint64_t hedges = 0;      // pages asked of another replica as well, while fetching
  uint64_t hedges_won = 0;  // ... and that came from there
  uint64_t posts = 0;       // while fetching
  uint64_t index_looks = 0;
};

// Fills the node with pages, then fetches pages of them, drawn at random or in the order of their
// puts. Fetching and copying the same pages with memcpy take turns of a fraction of a second, so
// that both meet the same machine. Landed pages are compared with the truth between the turns.
class FetchBench {
 public:
  // A node keeps some slots free and makes room ahead of the next puts: how many it needs so that
  // all of these pages stay.
  static uint64_t slots_for(uint64_t pages);

  FetchBench(Client& client, const FetchBenchOptions& options)
      : client_(client), options_(options) {}

  // `interrupted` is asked between the turns; `filled` is told how far the filling is.
  Result<FetchBenchResult> run(const std::function<bool()>& interrupted,
                               const std::function<void(uint64_t done, uint64_t total)>& filled);

 private:
  static uint64_t most_pages(uint64_t slots);

  Client& client_;
  FetchBenchOptions options_;
};

}  // namespace farpage
