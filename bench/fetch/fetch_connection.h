#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "bench/fetch/fetch_bench.h"
#include "bench/fetch/page_draw.h"
#include "bench/landing_memory.h"
#include "tier/client.h"

namespace farpage {

// One connection of the benchmark: a lane, its landing places, and what it has measured. One
// thread.
class FetchConnection {
 public:
  // `keys` outlive it.
  static Result<std::unique_ptr<FetchConnection>> open(Client& client,
                                                       const FetchBenchOptions& options,
                                                       std::span<const PageKey> keys,
                                                       uint64_t seed);

  // Fetches keys [begin, end), so that their locations are known, and each landing place is used
  // once.
  void warm_up(size_t begin, size_t end);
  // Finds out where the pages lie in memory mapped here; false if one does not.
  bool find_addresses();

  // Fetches for `seconds`; then, outside of the time taken, compares what the last fetches left.
  void fetch_for(double seconds);
  // Copies the pages that the last fetch_for() fetched to the same places.
  void copy_again();

  struct Totals {
    uint64_t fetches = 0;
    uint64_t ready = 0;
    std::array<uint64_t, kReasons> recompute = {};
    uint64_t impossible_fetches = 0;
    uint64_t impossible_ready = 0;
    uint64_t checked_pages = 0;
    uint64_t wrong_bytes = 0;
    uint64_t copied_pages = 0;
    double fetch_seconds = 0;
    double copy_seconds = 0;
    Histogram fetch_ns;
  };
  const Totals& totals() const { return totals_; }
  LaneStats stats() const { return lane_.stats(); }

 private:
  // One of `depth` places for a fetch in flight.
  struct Slot {
    std::vector<PageRequest> requests;
    std::vector<PageVerdict> verdicts;
    Fetch fetch;
    uint64_t start_ns = 0;
    bool is_impossible = false;
  };

  FetchConnection(Client& client, const FetchBenchOptions& options, std::span<const PageKey> keys,
                  uint64_t seed, LandingMemory memory, Lane lane);
  void fetch_one(const PageKey& key);
  bool addresses_are_valid() const;
  void start(Slot& slot);
  void finish(Slot& slot);
  void finish_oldest();
  uint64_t draw_time_ns(Slot& slot);
  Slot* take_released();
  void draw_keys(Slot& slot);
  void check(const Slot& slot);

  Client& client_;
  FetchBenchOptions options_;
  std::span<const PageKey> keys_;
  PageDraw draw_;
  Random impossible_draw_;
  uint64_t impossible_ns_ = 0;  // the time of a fetch that cannot be in time; 0: not known yet
  PageDraw phase_draw_;         // as it was when the last fetch_for() began
  uint64_t phase_fetches_ = 0;
  LandingMemory memory_;  // before the lane that uses it
  Lane lane_;
  std::vector<Slot> slots_;
  std::deque<Slot*> under_way_;              // in the order in which they were started
  std::deque<Slot*> finished_;               // and not started again yet
  std::vector<const std::byte*> addresses_;  // one a key
  Totals totals_;
};

}  // namespace farpage
