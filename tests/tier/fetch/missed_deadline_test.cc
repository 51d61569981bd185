#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "sim/sim_cluster.h"
#include "tests/support/engine.h"
#include "tests/tier/fleet.h"

namespace farpage {
namespace {

constexpr uint64_t kStepNs = 300 * kMicrosecond;
constexpr uint64_t kReadNs = 3 * kStepNs;

// Each read ends when it is done, and waits for none that was posted before.
sim::SimOptions between(uint64_t least_ns, uint64_t most_ns) {
  return {.delay_min_ns = least_ns, .delay_max_ns = most_ns, .reorder = 1};
}

SimClusterOptions roomy() {
  SimClusterOptions options;
  options.node.pool_bytes = 512 * (kPageBytes + sizeof(PageHeader));
  options.node.reuse_ms = 100;
  options.node.lease_ms = 1'000;
  return options;
}

struct OnePage {
  PageRequest request;
  PageVerdict verdict;
  Fetch fetch;
};

// A deadline is its caller's alone: what others fetch on the same lane does not notice it.
class MissedDeadline : public testing::Test {
 protected:
  static constexpr size_t kPages = 128;

  void SetUp() override {
    for (size_t i = 0; i < kPages; ++i) ASSERT_EQ(engine_.put(test_key(i), 1).code, Code::kOk);
    for (size_t i = 0; i < kPages; ++i) {
      ASSERT_EQ(engine_.fetch(test_key(i)).verdict, Verdict::kReady);
    }
    cluster_.set_network(between(kStepNs, kStepNs));
    before_ = engine_.lane().stats();
  }

  std::unique_ptr<OnePage> start(size_t page, uint64_t in_ns) {
    auto one = std::make_unique<OnePage>();
    one->request = {test_key(page), 0, engine_.slice(page)};
    one->fetch =
        engine_.lane().fetch({&one->request, 1}, {&one->verdict, 1}, engine_.deadline(in_ns));
    return one;
  }
  void start_others(uint64_t in_ns) {
    for (size_t i = 0; i < 63; ++i) others_.push_back(start(i, in_ns));
  }
  // Each of them takes what a read takes alone.
  void expect_others_undisturbed() {
    for (const auto& other : others_) {
      other->fetch.wait();
      EXPECT_EQ(other->verdict.verdict, Verdict::kReady);
      EXPECT_LE(other->verdict.took_ns, kReadNs + kReadNs / 10);
    }
    EXPECT_EQ(channels_ended(), 0u);
    EXPECT_EQ(engine_.lane().stats().operations - before_.operations, 64u);
  }
  uint64_t channels_ended() {
    return engine_.lane().stats().channels_ended - before_.channels_ended;
  }
  void run_for(uint64_t ns) { cluster_.world().run_until(cluster_.now_ns() + ns); }

  SimCluster cluster_{1, roomy()};
  std::unique_ptr<Client> client_ = cluster_.connect(0).value();
  Engine engine_{*client_, kPageBytes, kPages};
  LaneStats before_;
  std::vector<std::unique_ptr<OnePage>> others_;
};

TEST_F(MissedDeadline, CostsTheOthersOfTheLaneNothing) {
  start_others(kSecond);
  const auto late = start(63, kReadNs / 2);
  late->fetch.wait();
  EXPECT_EQ(late->verdict.reason, Reason::kStalled);
  EXPECT_EQ(late->verdict.place, Place::kHeld);
  expect_others_undisturbed();
}

TEST_F(MissedDeadline, CostsNothingToOthersWithLittleTimeToSpare) {
  start_others(kReadNs + kReadNs / 8);
  const auto late = start(63, kReadNs * 6 / 10);
  late->fetch.wait();
  EXPECT_EQ(late->verdict.reason, Reason::kStalled);
  expect_others_undisturbed();
}

TEST_F(MissedDeadline, HoldsTheDestinationUntilTheReadHasEnded) {
  const auto late = start(0, kReadNs / 2);
  late->fetch.wait();
  const uint64_t verdict_ns = cluster_.now_ns();
  EXPECT_TRUE(late->fetch.done());
  EXPECT_FALSE(late->fetch.released());
  EXPECT_FALSE(late->fetch.wait_released(verdict_ns + kReadNs / 4));
  EXPECT_TRUE(late->fetch.wait_released(verdict_ns + kReadNs));
  EXPECT_EQ(late->verdict.place, Place::kReleased);
  EXPECT_EQ(late->verdict.verdict, Verdict::kRecompute) << "a verdict is given once";
  EXPECT_EQ(channels_ended(), 0u);
}

TEST_F(MissedDeadline, OfAllPagesAtOnceCostsTheNextFetchNothing) {
  std::vector<std::unique_ptr<OnePage>> late;
  for (size_t i = 0; i < kPages; ++i) late.push_back(start(i, kReadNs / 2));
  for (const auto& each : late) each->fetch.wait();
  for (const auto& each : late) EXPECT_TRUE(each->fetch.wait_released(kNever));
  EXPECT_EQ(channels_ended(), 0u);
  EXPECT_EQ(engine_.fetch(test_key(0)).took_ns, kReadNs);
}

TEST_F(MissedDeadline, FetchThatIsLetGoCostsTheOthersNothing) {
  start_others(kSecond);
  { const auto dropped = start(63, kSecond); }
  expect_others_undisturbed();
}

TEST_F(MissedDeadline, FetchThatIsLetGoAsksForNoFurtherPage) {
  std::vector<PageRequest> requests;
  std::vector<PageVerdict> verdicts(1024);
  for (size_t i = 0; i < verdicts.size(); ++i) {
    requests.push_back({test_key(i % kPages), 0, engine_.slice(i % kPages)});
  }
  const uint64_t began_ns = cluster_.now_ns();
  { const Fetch dropped = engine_.lane().fetch(requests, verdicts, engine_.deadline(kSecond)); }
  EXPECT_LE(cluster_.now_ns() - began_ns, kReadNs);
  EXPECT_EQ(engine_.lane().stats().operations - before_.operations, kPages) << "one window";
  EXPECT_EQ(channels_ended(), 0u);
}

// A look at the index lands in the lane's own memory: no destination is in danger.
TEST_F(MissedDeadline, OfALookAtTheIndexHoldsNothingOfTheCallers) {
  const PageRequest request = {test_key(100'000), 0, engine_.slice(0)};
  PageVerdict verdict;
  const Fetch fetch =
      engine_.lane().fetch({&request, 1}, {&verdict, 1}, engine_.deadline(kReadNs / 2));
  while (!fetch.done()) engine_.lane().wait(engine_.deadline());
  EXPECT_EQ(verdict.reason, Reason::kStalled);
  EXPECT_EQ(verdict.place, Place::kReleased);
  EXPECT_TRUE(fetch.released());
  run_for(5 * kMillisecond);
  EXPECT_EQ(engine_.fetch(test_key(1)).looks, 1);
  EXPECT_EQ(channels_ended(), 0u);
}

// The page that takes a place of the window after one that missed its deadline is read once.
TEST_F(MissedDeadline, LeavesNothingBehindInItsPlaceOfTheWindow) {
  cluster_.set_network({.loss = 1, .late_max_ns = kSecond});
  std::vector<std::unique_ptr<OnePage>> late;
  for (size_t i = 0; i < kPages; ++i) late.push_back(start(i, kMillisecond));
  for (const auto& each : late) EXPECT_TRUE(each->fetch.wait_released(kNever));
  EXPECT_EQ(channels_ended(), 1u) << "the reads never end, so that L ends their channel";
  cluster_.set_network({});
  ASSERT_EQ(engine_.fetch(test_key(100'000)).reason, Reason::kMiss);
  const LaneStats before = engine_.lane().stats();
  std::vector<std::unique_ptr<OnePage>> next;
  for (size_t i = 0; i < kPages; ++i) next.push_back(start(i, kSecond));
  for (const auto& each : next) {
    each->fetch.wait();
    EXPECT_EQ(each->verdict.attempts, 1);
  }
  EXPECT_EQ(engine_.lane().stats().operations - before.operations, kPages);
}

// An engine that was busy elsewhere for longer than `read_window` finds reads that have ended
// meanwhile.
TEST_F(MissedDeadline, EndsNoChannelWhoseReadsEndedWhileNobodyDroveTheLane) {
  std::vector<std::unique_ptr<OnePage>> late;
  for (size_t i = 0; i < kPages; ++i) late.push_back(start(i, kReadNs / 2));
  for (const auto& each : late) each->fetch.wait();
  run_for(150 * kMillisecond);
  EXPECT_EQ(engine_.fetch(test_key(0)).verdict, Verdict::kReady);
  EXPECT_EQ(channels_ended(), 0u);
}

TEST_F(MissedDeadline, EndsTheChannelOnceLHasPassed) {
  cluster_.set_network({.loss = 1, .late_max_ns = 10 * kSecond});
  const uint64_t posted_ns = cluster_.now_ns();
  const auto late = start(0, kMillisecond);
  late->fetch.wait();
  EXPECT_EQ(cluster_.now_ns(), posted_ns + kMillisecond);
  EXPECT_FALSE(late->fetch.wait_released(posted_ns + 99 * kMillisecond));
  EXPECT_EQ(channels_ended(), 0u);
  EXPECT_TRUE(late->fetch.wait_released(posted_ns + 102 * kMillisecond));
  EXPECT_EQ(channels_ended(), 1u);
}

// A closed loop of 32 fetches of one page each, for a second.
class DeadlineLoop {
 public:
  struct Rate {
    uint64_t ready = 0;
    uint64_t asked = 0;  // with enough time
    uint64_t channels_ended = 0;
  };

  DeadlineLoop(uint64_t step_least_ns, uint64_t step_most_ns) {
    for (size_t i = 0; i < kPages; ++i) {
      EXPECT_EQ(engine_.put(test_key(i), 1).code, Code::kOk);
      EXPECT_EQ(engine_.fetch(test_key(i)).verdict, Verdict::kReady);
    }
    cluster_.set_network(between(step_least_ns, step_most_ns));
  }

  Rate run(double short_share, uint64_t patient_ns, uint64_t short_ns) {
    const uint64_t before = engine_.lane().stats().channels_ended;
    const uint64_t end = cluster_.now_ns() + kSecond;
    while (cluster_.now_ns() < end) {
      for (size_t i = 0; i < kPlaces; ++i) {
        Place& place = places_[i];
        if (!place.counted && place.one.fetch.done()) count(place);
        const bool is_free = place.counted && place.one.fetch.released();
        if (!is_free || under_way_ == kAtOnce) continue;
        place.is_short = std::uniform_real_distribution<>(0, 1)(random_) < short_share;
        place.one.request = {test_key(random_() % kPages), 0, engine_.slice(i)};
        place.one.fetch = {};
        place.one.fetch =
            engine_.lane().fetch({&place.one.request, 1}, {&place.one.verdict, 1},
                                 engine_.deadline(place.is_short ? short_ns : patient_ns));
        place.counted = false;
        ++under_way_;
      }
      engine_.lane().wait(std::min(end, cluster_.now_ns() + 50 * kMicrosecond));
    }
    rate_.channels_ended = engine_.lane().stats().channels_ended - before;
    return rate_;
  }

 private:
  static constexpr size_t kPages = 128;
  static constexpr size_t kAtOnce = 32;
  static constexpr size_t kPlaces = 256;  // one that is held is let be until it is released

  struct Place {
    OnePage one;
    bool is_short = false;
    bool counted = true;
  };

  void count(Place& place) {
    place.counted = true;
    --under_way_;
    if (place.is_short) return;
    ++rate_.asked;
    rate_.ready += place.one.verdict.verdict == Verdict::kReady;
  }

  SimCluster cluster_{1, roomy()};
  std::unique_ptr<Client> client_ = cluster_.connect(0).value();
  Engine engine_{*client_, kPageBytes, kPlaces};
  std::mt19937_64 random_{1};
  std::vector<Place> places_{kPlaces};
  size_t under_way_ = 0;
  Rate rate_;
};

TEST(MissedDeadlines, OfOneInAHundredLeaveTheOthersTheirThroughput) {
  constexpr uint64_t kLeast = 250 * kMicrosecond;
  constexpr uint64_t kMost = 350 * kMicrosecond;
  const auto none = DeadlineLoop(kLeast, kMost).run(0, 10 * kMillisecond, kStepNs);
  const auto some = DeadlineLoop(kLeast, kMost).run(0.01, 10 * kMillisecond, kStepNs);
  EXPECT_GE(static_cast<double>(some.ready), 0.95 * static_cast<double>(none.ready));
  EXPECT_EQ(some.channels_ended, 0u);
}

// As many pages are ready as reads would be done, were each alone.
TEST(MissedDeadlines, TightForAllLoseWhatIsLateAndNothingElse) {
  constexpr uint64_t kLeast = 100 * kMicrosecond;
  constexpr uint64_t kMost = 500 * kMicrosecond;
  for (const uint64_t deadline_us : {3000, 1400, 1200, 1000}) {
    const auto rate = DeadlineLoop(kLeast, kMost).run(0, deadline_us * kMicrosecond, 0);
    std::mt19937_64 random(7);
    std::uniform_int_distribution<uint64_t> step(kLeast, kMost);
    constexpr int kDraws = 100'000;
    int in_time = 0;
    for (int i = 0; i < kDraws; ++i) {
      in_time += step(random) + step(random) + step(random) < deadline_us * kMicrosecond;
    }
    const double alone = static_cast<double>(in_time) / kDraws;
    const double ready = static_cast<double>(rate.ready) / static_cast<double>(rate.asked);
    EXPECT_GE(ready, alone - 0.02) << deadline_us << " us";
    EXPECT_EQ(rate.channels_ended, 0u);
  }
}

class MissedDeadlineFleet : public FleetTest {
 protected:
  static SimClusterOptions options() {
    SimClusterOptions options = three_nodes();
    options.node.reuse_ms = 100;
    options.node.lease_ms = 1'000;
    return options;
  }
  MissedDeadlineFleet() : FleetTest(options()) { run_for(3 * kSecond); }
};

TEST_F(MissedDeadlineFleet, IsNoFaultOfTheNode) {
  const PageKey key = key_with_primary(0);
  ASSERT_EQ(engine().put(key, 1).code, Code::kOk);
  ASSERT_EQ(engine().fetch(key).replicas, 1);
  cluster_.set_network(between(kStepNs, kStepNs));
  for (int i = 0; i < 10; ++i) {
    ASSERT_EQ(engine().fetch(key, 0, 500 * kMicrosecond).reason, Reason::kStalled);
  }
  EXPECT_EQ(metric("farpage_client_breaker_opened_total"), 0);
  EXPECT_EQ(engine().lane().stats().channels_ended, 0u);
  run_for(kMillisecond);
  EXPECT_EQ(engine().fetch(key).attempts, 1);
}

// Attempts that wait for a silent node in vain leave room for pages of the others.
TEST_F(MissedDeadlineFleet, AtASilentNodeLeavesTheOthersRoom) {
  const PageKey there = key_with_primary(0);
  const PageKey elsewhere = key_with_primary(1);
  ASSERT_EQ(engine().put(there, 1).code, Code::kOk);
  ASSERT_EQ(engine().put(elsewhere, 1).code, Code::kOk);
  ASSERT_EQ(engine().fetch(there).verdict, Verdict::kReady);
  ASSERT_EQ(engine().fetch(elsewhere).verdict, Verdict::kReady);
  cluster_.part(cluster_.client_host(0), cluster_.node_host(0));
  std::vector<std::unique_ptr<OnePage>> late;
  for (size_t i = 0; i < 256; ++i) {
    late.push_back(std::make_unique<OnePage>());
    late[i]->request = {there, 0, engine().slice(i % 32)};
    late[i]->fetch = engine().lane().fetch({&late[i]->request, 1}, {&late[i]->verdict, 1},
                                           engine().deadline(20 * kMicrosecond));
  }
  for (const auto& each : late) each->fetch.wait();
  const PageRequest request = {elsewhere, 0, engine().slice(33)};
  PageVerdict verdict;
  engine().lane().fetch({&request, 1}, {&verdict, 1}, engine().deadline(kMillisecond)).wait();
  EXPECT_EQ(verdict.verdict, Verdict::kReady);
}

// A node that falls silent when half of a page's time is over is left for another replica all the
// same.
TEST_F(MissedDeadlineFleet, IsNotAwaitedAtANodeThatFallsSilentLate) {
  std::vector<PageKey> keys;
  for (uint64_t number = 0; keys.size() < 32; ++number) {
    if (nodes_of(test_key(number))[0] == 0) keys.push_back(test_key(number));
  }
  for (const PageKey& key : keys) ASSERT_EQ(engine().put(key, 1).code, Code::kOk);
  for (int round = 0; round < 4; ++round) {  // how long its reads take is known then
    for (const PageKey& key : keys) ASSERT_EQ(engine().fetch(key).verdict, Verdict::kReady);
  }
  cluster_.set_network({.delay_min_ns = 4 * kMillisecond, .delay_max_ns = 4 * kMillisecond});
  std::vector<PageRequest> requests;
  std::vector<PageVerdict> verdicts(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) requests.push_back({keys[i], 0, engine().slice(i)});
  const Fetch fetch =
      engine().lane().fetch(requests, verdicts, engine().deadline(60 * kMillisecond));
  run_for(6 * kMillisecond);
  cluster_.part(cluster_.client_host(0), cluster_.node_host(0));
  cluster_.set_network({});
  while (!fetch.done()) engine().lane().wait(engine().deadline());
  for (const PageVerdict& verdict : verdicts) EXPECT_EQ(verdict.verdict, Verdict::kReady);
}

// Pages that nobody can be asked for are not waited for.
TEST_F(MissedDeadlineFleet, IsNotAwaitedWhereNoNodeCanBeReached) {
  ASSERT_EQ(engine().put(test_key(1), 1).code, Code::kOk);
  ASSERT_EQ(engine().fetch(test_key(1)).verdict, Verdict::kReady);
  for (size_t node = 0; node < 3; ++node) {
    cluster_.part(cluster_.client_host(0), cluster_.node_host(node));
  }
  run_for(3 * kSecond);  // all leases have ended
  (void)engine().fetch(test_key(1), 0, kMillisecond);
  const PageVerdict verdict = engine().fetch(test_key(1), 0, kSecond);
  EXPECT_EQ(verdict.reason, Reason::kUnreachable);
  EXPECT_LE(verdict.took_ns, kMillisecond);
}

TEST(EmptyFetch, IsDoneAndReleased) {
  Fetch fetch;
  EXPECT_TRUE(fetch.done());
  EXPECT_TRUE(fetch.released());
  fetch.wait();
  EXPECT_TRUE(fetch.wait_released(0));
}

}  // namespace
}  // namespace farpage
