#pragma once

#include <algorithm>
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
  void allow_interrupts() { demands_.lane().allow_interrupts(); }
  void interrupt() { demands_.lane().interrupt(); }
  const DemandFetches& demands() const { return demands_; }

  DemandFetchState* start(std::span<const PageRequest> requests, std::span<PageVerdict> verdicts,
                          uint64_t deadline_ns, const DemandOptions& options) {
    return demands_.start(requests, verdicts, deadline_ns, options);
  }
  // On some backends a turn is a copy: as long as what is demanded comes, what is fetched ahead
  // waits, unless it is demanded too; and otherwise it has a turn at a time. Answers whether
  // anything moved.
  bool progress() {
    const bool is_any_pending = demands_.is_any_pending();
    bool has_moved = demands_.progress();
    demands_.judge();
    const bool is_busy = has_moved && is_any_pending;
    if (is_busy && !demands_.is_ahead_awaited()) return true;
    while (ahead_.progress()) {
      has_moved = true;
      demands_.judge();
      if (is_any_pending) break;
    }
    return (!is_busy && begin_ahead()) || has_moved;
  }
  // ... and if nothing moved, lets time pass until something may have, or until then.
  void wait(uint64_t until_ns) {
    if (!progress()) sleep(until_ns);
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
      sleep(demand.done() ? deadline_ns : std::min(deadline_ns, demand.deadline_ns));
      demands_.judge();
    }
    return true;
  }
  void sleep(uint64_t until_ns) {
    until_ns = std::min({until_ns, demands_.next_event_ns(), ahead_.next_event_ns()});
    const bool is_reading = demands_.is_reading();
    if (is_reading && !ahead_.is_under_way()) return demands_.lane().wait(until_ns);
    if (Lane* lane = ahead_.lane(); lane != nullptr) {
      return Lane::wait_for_either(demands_.lane(), *lane, until_ns);
    }
    // Nothing tells of both.
    until_ns = std::min(until_ns, clock_.now_ns() + kLookNs);
    is_reading ? demands_.lane().wait(until_ns) : ahead_.wait(until_ns);
  }
  // Answers whether any has begun.
  bool begin_ahead() {
    const bool has_begun = ahead_.begin();
    demands_.on_begun_ahead();
    return has_begun;
  }

  static constexpr uint64_t kLookNs = 20 * kMicrosecond;

  const Clock& clock_;
  PrefetchedPages ahead_;
  DemandFetches demands_;  // after what it uses: its fetches end first
};

}  // namespace farpage
