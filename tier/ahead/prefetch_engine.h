#pragma once

#include <memory>
#include <span>
#include <utility>

#include "tier/ahead/demand_fetches.h"
#include "tier/ahead/prefetched_pages.h"

namespace farpage {

// Demands, and the pages fetched ahead of them, in the order in which they are driven.
class PrefetchEngine {
 public:
  PrefetchEngine(const Clock& clock, const PrefetchOptions& options, uint64_t page_bytes,
                 Lane demand_lane, std::unique_ptr<PrefetchTransport> transfers,
                 std::unique_ptr<prefetch::Prefetcher> prefetcher)
      : clock_(clock),
        ahead_(clock, options, page_bytes, std::move(transfers), std::move(prefetcher)),
        demands_(clock, std::move(demand_lane), ahead_) {}

  PrefetchedPages& ahead() { return ahead_; }
  const PrefetchedPages& ahead() const { return ahead_; }
  DemandFetches& demands() { return demands_; }
  const DemandFetches& demands() const { return demands_; }

  DemandFetchState* start(std::span<const PageRequest> requests, std::span<PageVerdict> verdicts,
                          uint64_t deadline_ns, const DemandOptions& options) {
    return demands_.start(requests, verdicts, deadline_ns, options);
  }
  // On some backends a turn is a copy: as long as what is demanded comes, what is fetched ahead
  // waits, unless it is demanded too; and otherwise it has a turn at a time.
  void progress() {
    const bool is_any_pending = demands_.is_any_pending();
    const bool has_moved = demands_.progress();
    demands_.judge();
    const bool is_busy = has_moved && is_any_pending;
    if (is_busy && !demands_.is_ahead_awaited()) return;
    while (ahead_.progress()) {
      demands_.judge();
      if (is_any_pending) break;
    }
    if (!is_busy) begin_ahead();
  }
  void wait_done(DemandFetchState& demand) {
    wait(demand, kNever, [&] { return demand.done(); });
  }
  bool wait_released(DemandFetchState& demand, uint64_t deadline_ns) {
    return wait(demand, deadline_ns, [&] { return demand.released(); });
  }

 private:
  // Returns as soon as it has ended: what was fetched ahead can be taken later.
  template <typename Ended>
  bool wait(DemandFetchState& demand, uint64_t deadline_ns, const Ended& has_ended) {
    demands_.judge();
    while (!has_ended()) {
      progress();
      if (has_ended()) break;
      if (clock_.now_ns() >= deadline_ns) return false;
      demands_.wait(demand, deadline_ns);
      demands_.judge();
    }
    return true;
  }
  void begin_ahead() {
    ahead_.begin();
    demands_.on_begun_ahead();
  }

  const Clock& clock_;
  PrefetchedPages ahead_;
  DemandFetches demands_;  // after what it uses: its fetches end first
};

}  // namespace farpage
