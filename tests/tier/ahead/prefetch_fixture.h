#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "prefetch/policy.h"
#include "sim/fault/fault_fabric.h"
#include "sim/sim_cluster.h"
#include "tests/support/engine.h"
#include "tier/ahead/prefetch_lane.h"

namespace farpage {

// The accesses that a prefetcher heard, and the pages that it names: numbers in the order in which
// pages were first heard of.
struct Script {
  std::vector<prefetch::PageNumber> names;
  std::vector<prefetch::Access> accesses;
  std::vector<prefetch::PageNumber> missed;
  std::vector<prefetch::PageNumber> milestones;
  std::vector<prefetch::PageNumber> forgotten;
  std::vector<prefetch::PageNumber> inserted;
  std::vector<prefetch::PageNumber> evicted;
};

class ScriptedPrefetcher final : public prefetch::Prefetcher {
 public:
  explicit ScriptedPrefetcher(Script& script) : script_(script) {}

  void on_access(const prefetch::Access& access) override { script_.accesses.push_back(access); }
  void on_miss(prefetch::PageNumber page) override { script_.missed.push_back(page); }
  void on_insert(prefetch::PageNumber page) override { script_.inserted.push_back(page); }
  void on_evict(prefetch::PageNumber page) override { script_.evicted.push_back(page); }
  void on_milestone(prefetch::PageNumber page) override { script_.milestones.push_back(page); }
  void on_forget(prefetch::PageNumber page) override { script_.forgotten.push_back(page); }
  size_t candidates(std::span<prefetch::PageNumber> pages) override {
    const size_t count = std::min(pages.size(), script_.names.size());
    std::copy_n(script_.names.begin(), count, pages.begin());
    return count;
  }

 private:
  Script& script_;
};

// Begun is either over or not, and every place of the landing is somebody's.
inline void expect_accounted(const PrefetchReport& report, uint64_t lent_places) {
  const prefetch::PrefetchAccount& pages = report.pages;
  EXPECT_EQ(pages.begun, report.under_way + report.here + pages.timely + pages.late + pages.unused +
                             pages.evicted + pages.failed);
  EXPECT_EQ(pages.asked, pages.begun + pages.cancelled + pages.overtaken + report.waiting);
  EXPECT_EQ(report.taken_places, report.under_way + report.here + lent_places);
}

// One engine's thread in virtual time, behind a fabric with faults, and another client that puts.
class PrefetchTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kPageBytes = 512;
  static constexpr uint64_t kReadNs = 10 * kMicrosecond;
  static constexpr size_t kFrames = 64;

  static SimClusterOptions cluster_options() {
    SimClusterOptions options;
    options.clients = 2;
    options.node.pool_bytes = 256 * (kPageBytes + sizeof(PageHeader));
    options.node.reuse_ms = 20;
    options.node.lease_ms = 100;
    return options;
  }
  static PrefetchOptions small_options() {
    PrefetchOptions options;
    options.landing_pages = 8;
    options.known_pages = 64;
    options.patience_ns = 10 * kMillisecond;
    options.prefetch_pages = 8;
    options.heads = 4;
    options.scheduler = {.most_waiting = 32, .most_under_way = 8, .useful_steps = 10};
    return options;
  }

  explicit PrefetchTest(const PrefetchOptions& options = small_options())
      : lane_(PrefetchLane::open(*client_, options, std::make_unique<ScriptedPrefetcher>(script_))
                  .value()) {
    set_delay(kReadNs);
  }

  uint64_t now() const { return client_->clock().now_ns(); }
  void set_delay(uint64_t delay_ns) {
    cluster_.client_fabric(0).set_options({.delay_min_ns = delay_ns, .delay_max_ns = delay_ns});
  }
  // The next so many operations that it can be made of.
  void inject(fault::FaultKind kind, uint64_t count = kNever) {
    fault::FaultPlan plan;
    plan.of(kind) = 1;
    plan.most = count;
    faulty_.set_plan(plan);
  }
  PutResult put(uint64_t number, uint64_t put_number) {
    const PutResult put = writer_.put(test_key(number), put_number);
    EXPECT_EQ(put.code, Code::kOk);
    return put;
  }
  void put_all(uint64_t count) {
    for (uint64_t number = 0; number < count; ++number) put(number, 100 + number);
  }

  // They get the numbers from 0 on, if they are the first that are.
  void hear_of(uint64_t count, uint64_t step = 1) {
    std::vector<ObservedAccess> accesses;
    for (uint64_t number = 0; number < count; ++number) {
      accesses.push_back({.key = test_key(number), .step = step});
    }
    lane_.observe(accesses);
  }
  void expect_next(std::vector<prefetch::PageNumber> pages, uint64_t step = 2) {
    script_.names = std::move(pages);
    lane_.observe({{{.key = test_key(0), .step = step}}});
    lane_.progress();
  }
  void drive(uint64_t in_ns) {
    const uint64_t until_ns = cluster_.now_ns() + in_ns;
    lane_.progress();
    while (cluster_.now_ns() < until_ns) {
      cluster_.world().run_until(cluster_.now_ns() + kMicrosecond);
      lane_.progress();
    }
  }
  // Pages that have come, and nothing else.
  void bring(const std::vector<prefetch::PageNumber>& pages, uint64_t step = 2) {
    const uint64_t here = lane_.report().here;
    const size_t count = pages.size();
    for (int round = 0; round < 20 && lane_.report().here < here + count; ++round) {
      expect_next(pages, step);
      drive(10 * kReadNs);
    }
    ASSERT_EQ(lane_.report().here, here + count);
    script_.names.clear();
  }

  struct Demand {
    std::vector<PageRequest> requests;
    std::vector<PageVerdict> verdicts;
    DemandFetch fetch;
  };
  Demand demand(const std::vector<uint64_t>& numbers, uint64_t in_ns = 2 * kSecond,
                const DemandOptions& options = {}, Version min_version = 0) {
    Demand demand;
    for (size_t i = 0; i < numbers.size(); ++i) {
      std::ranges::fill(engine_.frame(i), std::byte{0xEE});
      demand.requests.push_back({test_key(numbers[i]), min_version, engine_.slice(i)});
    }
    demand.verdicts.resize(numbers.size());
    demand.fetch = lane_.fetch(demand.requests, demand.verdicts, now() + in_ns, options);
    return demand;
  }
  Demand demand_now(const std::vector<uint64_t>& numbers, uint64_t in_ns = 2 * kSecond,
                    const DemandOptions& options = {}, Version min_version = 0) {
    Demand demand = this->demand(numbers, in_ns, options, min_version);
    demand.fetch.wait();
    return demand;
  }
  bool is_in_frame(const Demand& demand, size_t page = 0) {
    return demand.verdicts[page].landed == demand.requests[page].destination.data;
  }
  // The put whose page lies there, or nothing if any byte is wrong.
  static std::optional<uint64_t> put_number(const Demand& demand, size_t page = 0) {
    const std::byte* landed = demand.verdicts[page].landed;
    if (landed == nullptr) return std::nullopt;
    const uint64_t number = page_put_number({landed, kPageBytes});
    const uint64_t wrong =
        count_wrong_bytes({landed, kPageBytes}, demand.requests[page].key, {number, number});
    return wrong == 0 ? std::optional(number) : std::nullopt;
  }
  bool is_untouched(size_t frame) {
    return std::ranges::all_of(engine_.frame(frame),
                               [](std::byte byte) { return byte == std::byte{0xEE}; });
  }

  Script script_;
  SimCluster cluster_{1, cluster_options()};
  fault::FaultFabric faulty_{cluster_.client_fabric(0), cluster_.world().clock(), 1};
  std::unique_ptr<Client> client_ = cluster_.connect(0, {}, &faulty_).value();
  std::unique_ptr<Client> writing_ = cluster_.connect(1).value();
  Engine engine_{*client_, kPageBytes, kFrames};
  Engine writer_{*writing_, kPageBytes, 1};
  PrefetchLane lane_;
};

}  // namespace farpage
