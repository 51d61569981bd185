#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "base/clock_gap.h"
#include "base/log.h"
#include "base/metrics.h"
#include "control/messages.h"
#include "tier/request/page_request.h"
#include "tier/stats/landing_place.h"
#include "tier/stats/lane_stats.h"

namespace farpage {

// Counters of one lane. Its thread writes, any thread reads.
struct LaneCounters {
  Counter ready;
  Counter ready_bytes;
  std::array<Counter, kReasons> recompute;  // by reason
  Counter posts;
  Counter operations;
  Counter index_looks;
  Counter located;
  Counter channels_ended;
  Counter strays;
  Counter late_verdicts;
  Counter latest_ns;
  Counter next_replicas;
  Counter hedges;
  Counter hedges_won;
  Counter straight;  // pages
  Counter push_requests;
  Counter quarantined_places;  // that have ever come into quarantine
  // From the start of a fetch: to its last verdict, and to each verdict.
  DurationHistogram fetches;
  DurationHistogram ready_pages;
  DurationHistogram recompute_pages;

  // Pages of one fetch that have their verdict. `bytes`: of all of them; `ends_fetch`: none is
  // without.
  void count_ready(uint64_t pages, uint64_t bytes, uint64_t took_ns, bool ends_fetch) {
    const size_t bucket = DurationHistogram::bucket_of(took_ns);
    ready.add(pages);
    ready_bytes.add(bytes);
    ready_pages.add_to(bucket, took_ns, pages);
    if (ends_fetch) fetches.add_to(bucket, took_ns);
  }
  void count_recompute(Reason reason, uint64_t took_ns, bool ends_fetch);
  void count_lateness(uint64_t pages, uint64_t now_ns, uint64_t deadline_ns);

  uint64_t recompute_total() const;
  LaneStats stats() const;
  VerdictCounts verdicts() const;
  void add(const LaneCounters& other);
};

// The counters of a client: those of the lanes that are open, of those that were, and of its puts.
class ClientCounters {
 public:
  // The lane's counters count from now on, and what they have counted stays when they go.
  void open(const LaneCounters* lane);
  void close(const LaneCounters* lane);
  void add_to(LaneCounters& sum) const;

  // The verdicts since the last call: each is told to one node, once.
  VerdictCounts take_untold();

  void count_puts(uint64_t acknowledged, uint64_t failed) {
    puts_acknowledged_.fetch_add(acknowledged, std::memory_order_relaxed);
    puts_failed_.fetch_add(failed, std::memory_order_relaxed);
  }
  uint64_t puts_acknowledged() const { return puts_acknowledged_.load(std::memory_order_relaxed); }
  uint64_t puts_failed() const { return puts_failed_.load(std::memory_order_relaxed); }

  // A lease that has ended because the machine was held for so long; says so. On the runtime.
  void lease_ended_held(uint64_t held_ns) {
    held_leases_.fetch_add(1, std::memory_order_relaxed);
    held_warnings_.warn(held_warning(held_ns));
  }
  uint64_t held_leases() const { return held_leases_.load(std::memory_order_relaxed); }

  // Pages that a GPU has checked behind their copy, and those of them that the copy had spoiled.
  void count_copies_checked(uint64_t pages, uint64_t spoiled) {
    copies_checked_.fetch_add(pages, std::memory_order_relaxed);
    copies_spoiled_.fetch_add(spoiled, std::memory_order_relaxed);
  }
  uint64_t copies_checked() const { return copies_checked_.load(std::memory_order_relaxed); }
  uint64_t copies_spoiled() const { return copies_spoiled_.load(std::memory_order_relaxed); }

  // Pages that have landed for a GPU, by where.
  void count_landed(LandingPlace place, uint64_t pages) {
    landed_[static_cast<size_t>(place)].fetch_add(pages, std::memory_order_relaxed);
  }
  uint64_t landed(LandingPlace place) const {
    return landed_[static_cast<size_t>(place)].load(std::memory_order_relaxed);
  }

  void link_rests() { rests_.fetch_add(1, std::memory_order_relaxed); }
  uint64_t rests() const { return rests_.load(std::memory_order_relaxed); }

 private:
  mutable std::mutex mutex_;  // never taken by a fetch
  std::vector<const LaneCounters*> open_;
  LaneCounters closed_;
  VerdictCounts told_;
  std::atomic<uint64_t> puts_acknowledged_{0};
  std::atomic<uint64_t> puts_failed_{0};
  std::atomic<uint64_t> copies_checked_{0};
  std::atomic<uint64_t> copies_spoiled_{0};
  std::array<std::atomic<uint64_t>, kLandingPlaces.size()> landed_ = {};
  std::atomic<uint64_t> held_leases_{0};
  std::atomic<uint64_t> rests_{0};
  WarningLimiter held_warnings_;  // a held machine ends all its leases at one time
};

}  // namespace farpage
