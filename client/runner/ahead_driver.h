#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "base/clock.h"
#include "base/metrics.h"
#include "base/status.h"
#include "client/runner/ahead_options.h"
#include "client/runner/fetch_runner.h"
#include "tier/ahead/prefetch_lane.h"
#include "tier/stats/lane_counters.h"

namespace farpage {

// What became of fetches over a prefetch lane, and of its pages.
struct AheadCounts {
  VerdictCounts verdicts;
  uint64_t near = 0;     // of those that were ready: pages that were fetched ahead
  uint64_t fetched = 0;  // pages ahead of their demands, demanded or not
  uint64_t places = 0;   // of memory in use for them now
};

// Fetches over a prefetch lane. A page that was fetched ahead is copied to its destination before
// its fetch is told of.
class AheadDriver {
 public:
  // Pages that were fetched ahead are copied once the fetch is done, some at a time.
  struct Operation {
    DemandFetch fetch;
    size_t copied = 0;  // pages that were looked at, the first ones
    bool is_whole = false;

    bool done() const { return is_whole; }
    bool released() const { return is_whole && fetch.released(); }
  };

  static Result<AheadDriver> open(Client& client, const AheadOptions& options);

  std::optional<Operation> begin(Submission& submission, const std::function<void()>& give_a_turn);
  bool go_on(Operation& operation, Submission& submission);
  void finish(Submission& submission);
  bool progress();
  void wait(uint64_t until_ns) { lane_.wait(until_ns); }
  bool is_at_rest() const { return true; }
  // There may be pages to fetch ahead, or to give up.
  void wait_idle(const SubmissionPool& pool, uint32_t rings) {
    if (!pool.spin(rings, [this] { return progress(); })) wait(kNever);
  }
  void interrupt() { lane_.interrupt(); }

  // As of a moment ago; any thread.
  AheadCounts counts() const;

 private:
  // The thread writes, any thread reads.
  struct Counters {
    LaneCounters told;
    Counter near;
    std::atomic<uint64_t> places = 0;
  };

  AheadDriver(PrefetchLane lane, const Clock& clock);
  uint64_t copy(const PageRequest& request, PageVerdict& verdict, uint64_t deadline_ns);

  PrefetchLane lane_;
  const Clock* clock_;
  std::unique_ptr<Counters> counters_ = std::make_unique<Counters>();
};

using AheadRunner = FetchRunner<AheadDriver>;

}  // namespace farpage
