#include "tier/ahead/page_fetches.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <vector>

#include "sim/fault/fault_fabric.h"
#include "sim/sim_cluster.h"
#include "tests/support/engine.h"

namespace farpage {
namespace {

constexpr uint64_t kPageBytes = 512;

class PageFetchesTest : public ::testing::Test {
 protected:
  static SimClusterOptions options() {
    SimClusterOptions options;
    options.clients = 1;
    return options;
  }

  uint64_t now() const { return cluster_.now_ns(); }
  void begin(uint64_t number, uint64_t in_ns) {
    fetches_.begin(number, {test_key(number), 0, engine_.slice(number)}, now() + in_ns);
  }
  void set_delay(uint64_t delay_ns) {
    cluster_.client_fabric(0).set_options({.delay_min_ns = delay_ns, .delay_max_ns = delay_ns});
  }
  // The fetches that have ended by then.
  std::map<uint64_t, PageVerdict> drive(uint64_t in_ns) {
    std::map<uint64_t, PageVerdict> ended;
    const uint64_t until_ns = now() + in_ns;
    while (now() < until_ns) {
      fetches_.progress();
      while (const auto one = fetches_.next()) ended[one->tag] = one->verdict;
      cluster_.world().run_until(now() + kMicrosecond);
    }
    return ended;
  }

  SimCluster cluster_{1, options()};
  fault::FaultFabric faulty_{cluster_.client_fabric(0), cluster_.world().clock(), 1};
  std::unique_ptr<Client> client_ = cluster_.connect(0, {}, &faulty_).value();
  Engine engine_{*client_, kPageBytes, 8};
  PageFetches fetches_{engine_.lane(), 3};
};

TEST_F(PageFetchesTest, EachEndsByItselfAndTheNextTakesItsPlace) {
  for (const uint64_t number : {1, 2}) engine_.put(test_key(number), 10 + number);
  for (const uint64_t number : {1, 2, 3}) begin(number, kSecond);
  EXPECT_EQ(fetches_.under_way(), 3u);
  const auto ended = drive(10 * kMillisecond);
  ASSERT_EQ(ended.size(), 3u);
  EXPECT_EQ(ended.at(1).verdict, Verdict::kReady);
  EXPECT_EQ(engine_.put_number_of(test_key(1), 1), 11u);
  EXPECT_EQ(engine_.put_number_of(test_key(2), 2), 12u);
  EXPECT_EQ(ended.at(3).reason, Reason::kMiss);
  EXPECT_EQ(fetches_.under_way(), 0u);
  for (uint64_t round = 0; round < 20; ++round) {
    begin(1, kSecond);
    EXPECT_EQ(drive(10 * kMillisecond).at(1).verdict, Verdict::kReady);
  }
}

// One that was lost has its verdict by its deadline, and is not told of while it may still land.
TEST_F(PageFetchesTest, WhatIsHeldIsTheirsUntilItIsReleased) {
  engine_.put(test_key(1), 11);
  begin(1, kSecond);
  ASSERT_EQ(drive(10 * kMillisecond).size(), 1u);
  fault::FaultPlan plan;
  plan.delay_ns = 5 * kMillisecond;
  faulty_.set_plan(plan);
  begin(1, kMillisecond);
  EXPECT_TRUE(drive(kMillisecond).empty());
  EXPECT_EQ(fetches_.under_way(), 1u);
  const auto ended = drive(20 * kMillisecond);
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended.at(1).reason, Reason::kStalled);
  EXPECT_EQ(ended.at(1).place, Place::kReleased);
}

// In any order of beginning, and after any earlier end.
TEST_F(PageFetchesTest, WaitsForWhicheverEndsFirst) {
  for (const uint64_t number : {1, 2, 3}) {
    engine_.put(test_key(number), 10 + number);
    begin(number, kSecond);
    ASSERT_EQ(drive(10 * kMillisecond).size(), 1u);
  }
  set_delay(100 * kMicrosecond);
  std::vector<uint64_t> begun_ns;
  for (const uint64_t number : {1, 2, 3}) {
    begin(number, kSecond);
    begun_ns.push_back(now());
    ASSERT_TRUE(drive(20 * kMicrosecond).empty());
  }
  uint64_t first_took_ns = 0;
  for (const uint64_t number : {1, 2, 3}) {
    std::optional<PageFetches::Ended> ended = fetches_.next();
    for (; !ended && now() < begun_ns[0] + kMillisecond; ended = fetches_.next()) {
      fetches_.wait(begun_ns[0] + kMillisecond);
    }
    ASSERT_TRUE(ended.has_value());
    EXPECT_EQ(ended->tag, number);
    const uint64_t took_ns = now() - begun_ns[number - 1];
    if (number == 1) first_took_ns = took_ns;
    EXPECT_LT(took_ns, first_took_ns + 5 * kMicrosecond);
  }
}

}  // namespace
}  // namespace farpage
