#include "lab/live/lane_wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "base/random.h"
#include "lab/paging/for_each_step.h"
#include "lab/vtime/scheduled_wire.h"
#include "lab/vtime/step_replay.h"
#include "lab/vtime/virtual_wire.h"
#include "pagetable/guards.h"
#include "prefetch/registry/registry.h"
#include "replay/page_content.h"
#include "sim/fault/fault_fabric.h"
#include "sim/fault/shaped_fabric.h"
#include "sim/sim_cluster.h"

namespace farpage::live {
namespace {

using fault::FaultKind;
using prefetch::Access;
using prefetch::PageNumber;

constexpr uint64_t kPageBytes = 512;
constexpr uint64_t kPages = 60;
constexpr uint64_t kStepPages = 4;
constexpr uint64_t kBudget = 12;

// A few pages often, others now and then, in an order that comes again.
paging::AccessTrace drawn(uint64_t seed) {
  Random random(seed);
  std::vector<Access> accesses;
  for (uint64_t step = 0; step < 400; ++step) {
    std::vector<PageNumber> pages = {static_cast<PageNumber>(step % 20)};
    while (pages.size() < kStepPages) {
      const uint64_t page =
          random.below(3) > 0 ? (step + pages.size() * 7) % 20 : 20 + random.below(kPages - 20);
      if (std::ranges::count(pages, page) > 0) break;
      pages.push_back(static_cast<PageNumber>(page));
    }
    for (const PageNumber page : pages) accesses.push_back({accesses.size(), step, page});
  }
  return paging::trace_of_accesses("drawn", true, std::move(accesses));
}

// A node in virtual time, behind a link that takes 1 µs for a page and 20 µs of latency.
class LaneWireTest : public testing::Test {
 protected:
  static constexpr uint64_t kTransferNs = kMicrosecond;
  static constexpr uint64_t kLatencyNs = 20 * kMicrosecond;

  static SimClusterOptions options() {
    SimClusterOptions options;
    options.node.pool_bytes = 256 * kKiB;
    // The machine itself takes less time than the link.
    options.network = {.delay_min_ns = 0, .delay_max_ns = kMicrosecond};
    return options;
  }

  LaneWireTest() {
    for (PageNumber page = 0; page < kPages; ++page) {
      keys_.push_back(make_page_key("live", std::to_string(page)));
    }
    put_all();
    // A header comes with each page.
    shaped_.shape({kLatencyNs, (kPageBytes + sizeof(PageHeader)) * (kSecond / kTransferNs)});
  }

  void put_all() {
    PagePool pool = PagePool::create(shaped_, kPageBytes, 1).value();
    const PageLease frame = *pool.take();
    Lane lane = client_->open_lane().value();
    for (const PageKey& key : keys_) {
      fill_page({frame.slice().data, kPageBytes}, key, LaneWire::kPutNumber);
      const PutRequest request = {key, frame.slice()};
      ASSERT_EQ(client_->put({&request, 1}, now() + kSecond).wait()[0].code, Code::kOk);
      ASSERT_TRUE(lane.contains(key, now() + kSecond));  // and where it is, is known
    }
  }

  uint64_t now() const { return cluster_.now_ns(); }

  static vtime::TimedOptions timed() {
    vtime::TimedOptions options;
    options.page_bytes = kTransferNs;  // at a byte a nanosecond
    options.compute_ns = 50 * kMicrosecond;
    options.prefetch_pages = 5;
    options.tiers = {{kLatencyNs, kSecond, 0}};
    return options;
  }

  struct Chosen {
    Chosen(const std::string& prefetcher_name, const prefetch::Future& future) {
      prefetch::Setting setting;
      setting.budget_pages = kBudget;
      setting.future = &future;
      policy = prefetch::choose_policy("lru")->make(setting);
      prefetcher = prefetch::choose_prefetcher(prefetcher_name)->make(setting);
    }
    std::unique_ptr<prefetch::Policy> policy;
    std::unique_ptr<prefetch::Prefetcher> prefetcher;
  };

  vtime::TimedResult replay(const paging::AccessTrace& trace, vtime::Wire& wire, Chosen chosen) {
    vtime::StepReplay replay(trace.pages, kBudget, timed(), wire, *chosen.policy,
                             *chosen.prefetcher);
    uint64_t step = 0;
    EXPECT_TRUE(paging::for_each_step(trace, [&](std::span<const Access> accesses) {
      if (before_step_) before_step_(step++);
      replay.step(accesses);
    }));
    return replay.end();
  }

  std::unique_ptr<LaneWire> open() {
    const vtime::TimedOptions options = timed();
    return LaneWire::open(*client_, shaped_, keys_,
                          {kPageBytes, kBudget, kStepPages, options.prefetch_pages, kDeadlineNs,
                           options.scheduler},
                          [this](uint64_t until_ns) {
                            cluster_.world().run_until(std::min(until_ns, now() + 100));
                          })
        .value();
  }

  vtime::TimedResult replay_live(const paging::AccessTrace& trace, Chosen chosen) {
    const std::unique_ptr<LaneWire> wire = open();
    const uint64_t begin_ns = now();
    vtime::TimedResult result = replay(trace, *wire, std::move(chosen));
    counts_ = wire->end();
    result.end_ns -= begin_ns;
    EXPECT_EQ(counts_.wrong_bytes > 0, serves_wrong_bytes_);
    return result;
  }

  static constexpr uint64_t kDeadlineNs = 5 * kMillisecond;

  SimCluster cluster_{1, options()};
  fault::FaultFabric faulty_{cluster_.client_fabric(0), cluster_.world().clock(), 1};
  fault::ShapedFabric shaped_{faulty_, cluster_.world().clock()};
  std::unique_ptr<Client> client_ = cluster_.connect(0, {}, &shaped_).value();
  std::vector<PageKey> keys_;
  std::function<void(uint64_t)> before_step_;
  LiveCounts counts_;
  bool serves_wrong_bytes_ = false;
};

uint64_t sum(const LiveCounts& counts) {
  return std::accumulate(counts.recompute.begin(), counts.recompute.end(), uint64_t{0});
}

TEST_F(LaneWireTest, DoesWhatVirtualTimeSays) {
  for (const uint64_t seed : {1, 2}) {
    const auto trace = drawn(seed);
    const auto future = paging::TraceFuture::of(trace);
    for (const std::string name : {"none", "markov:least=1", "random", "oracle"}) {
      SCOPED_TRACE(name);
      vtime::VirtualWire virtual_wire(timed().tiers, timed().page_bytes);
      vtime::ScheduledWire scheduled(virtual_wire, timed().scheduler);
      const auto expected = replay(trace, scheduled, {name, *future});
      const auto result = replay_live(trace, {name, *future});
      EXPECT_EQ(result.paging.hits, expected.paging.hits);
      EXPECT_EQ(result.paging.evictions, expected.paging.evictions);
      EXPECT_EQ(result.demand_fetches, expected.demand_fetches);
      EXPECT_EQ(result.prefetch.begun, expected.prefetch.begun);
      EXPECT_EQ(result.prefetch.timely, expected.prefetch.timely);
      EXPECT_EQ(result.prefetch.late, expected.prefetch.late);
      EXPECT_NEAR(static_cast<double>(result.stall_ns), static_cast<double>(expected.stall_ns),
                  0.02 * static_cast<double>(expected.stall_ns));
      EXPECT_EQ(result.end_ns, result.steps * timed().compute_ns + result.stall_ns);
      EXPECT_EQ(sum(counts_), 0u);
      if (name != "none") {
        EXPECT_GT(expected.prefetch.timely, 50u);
      }
    }
  }
}

// Pages 0 and 1 were accessed; 1 has left, and has come ahead.
class LaneWireAhead : public LaneWireTest {
 protected:
  LaneWireAhead() {
    for (const PageNumber page : {0, 1}) {
      EXPECT_EQ(wire_->demand(page, 1), vtime::Wire::State::kNone);
      wire_->fetch(page);
      wire_->on_access({.step = 1, .page = page});
    }
    wire_->send();
    wire_->plan({}, 1);
    for (int landed = 0; landed < 2; ++landed) EXPECT_TRUE(wire_->next(now() + kDeadlineNs));
    wire_->keep(1);
    wire_->forget(1);
    wire_->on_access({.step = 2, .page = 0});
    const PageNumber expected = 1;
    wire_->plan({&expected, 1}, 2);
    EXPECT_FALSE(wire_->next(now() + 10 * kLatencyNs));
    EXPECT_EQ(wire_->account().begun, 1u);
    EXPECT_THAT(wire_->arrived(), testing::ElementsAre(1));
    EXPECT_THAT(wire_->arrived(), testing::IsEmpty());
  }

  std::unique_ptr<LaneWire> wire_ = open();
};

TEST_F(LaneWireAhead, WhatIsHeldStaysNearOnceItsTimeIsOver) {
  wire_->hold(1);
  EXPECT_EQ(wire_->state(1), vtime::Wire::State::kHere);
  wire_->expire(1);
  EXPECT_EQ(wire_->state(1), vtime::Wire::State::kNone);
  EXPECT_EQ(wire_->account().unused, 1u);
  EXPECT_EQ(wire_->end().wrong_bytes, 0u);
}

TEST_F(LaneWireAhead, WhatIsDemandedIsOfUseAndNotWaitedFor) {
  EXPECT_EQ(wire_->demand(1, 3), vtime::Wire::State::kHere);
  EXPECT_EQ(wire_->demand(1, 3), vtime::Wire::State::kNone) << "no more";
  wire_->evict(1);
  wire_->send();
  EXPECT_FALSE(wire_->next(now() + kDeadlineNs));
  EXPECT_EQ(wire_->account().timely, 1u);
  EXPECT_EQ(wire_->account().evicted, 0u);
  EXPECT_EQ(wire_->end().wrong_bytes, 0u);
}

TEST_F(LaneWireAhead, WhatFindsNoRoomIsNoMoreThere) {
  wire_->evict(1);
  wire_->forget(1);
  EXPECT_EQ(wire_->state(1), vtime::Wire::State::kNone);
  EXPECT_EQ(wire_->account().evicted, 1u);
}

TEST_F(LaneWireTest, WhatANodeDoesNotBringIsMadeAgainAndTheRestComes) {
  const auto trace = drawn(1);
  const auto future = paging::TraceFuture::of(trace);
  before_step_ = [this](uint64_t step) {
    if (step == 200) cluster_.end_node(NodeEnd::kPowerLost);
  };
  const auto result = replay_live(trace, {"oracle", *future});
  EXPECT_EQ(result.steps, 400u);
  EXPECT_GT(sum(counts_), 20u);
  EXPECT_EQ(result.recomputed_pages, sum(counts_));
  EXPECT_GT(result.prefetch.failed, 0u);
  EXPECT_EQ(result.prefetch.asked,
            result.prefetch.begun + result.prefetch.cancelled + result.prefetch.overtaken);
  EXPECT_LE(counts_.lateness_max_ns, 200u);  // as time passes here
}

// Some of what was fetched ahead is waited for when it is found out, and fetched again.
TEST_F(LaneWireTest, NothingWrongIsServedWhateverTheWireDoes) {
  const auto trace = drawn(1);
  const auto future = paging::TraceFuture::of(trace);
  fault::FaultPlan plan;
  for (const FaultKind kind : {FaultKind::kFlippedPayload, FaultKind::kTorn, FaultKind::kShort,
                               FaultKind::kNothing, FaultKind::kFailed, FaultKind::kLate}) {
    plan.of(kind) = 0.02;
  }
  plan.late_max_ns = 100 * kMicrosecond;
  faulty_.set_plan(plan);
  const auto result = replay_live(trace, {"oracle", *future});
  for (const FaultKind kind :
       {FaultKind::kFlippedPayload, FaultKind::kShort, FaultKind::kNothing, FaultKind::kFailed}) {
    EXPECT_GT(faulty_.injected().of(kind), 0u);
  }
  EXPECT_GT(result.prefetch.useful(), 200u);
}

#ifdef FARPAGE_GUARD_SWITCHES
TEST_F(LaneWireTest, AWrongByteThatIsServedIsFound) {
  const auto trace = drawn(1);
  const auto future = paging::TraceFuture::of(trace);
  fault::FaultPlan plan;
  plan.of(FaultKind::kFlippedPayload) = 1;
  plan.most = 1;
  faulty_.set_plan(plan);
  const GuardOff off(Guard::kPayloadCrc);
  serves_wrong_bytes_ = true;
  replay_live(trace, {"none", *future});
  EXPECT_EQ(counts_.wrong_bytes, 1u);
}
#endif

}  // namespace
}  // namespace farpage::live
