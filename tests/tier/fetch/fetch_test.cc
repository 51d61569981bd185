#include <gtest/gtest.h>

#include "tests/support/cluster.h"
#include "tests/support/engine.h"

namespace farpage {
namespace {

class FetchTest : public ::testing::TestWithParam<Path> {
 protected:
  static constexpr uint64_t kPageBytes = 4 * kKiB;

  Cluster cluster_{GetParam()};
  std::unique_ptr<Client> client_ = cluster_.connect();
  Engine engine_{*client_, kPageBytes, 64};
};

TEST_P(FetchTest, WhatWasPutComesBackWhole) {
  const PutResult put = engine_.put(test_key(1), 7);
  ASSERT_EQ(put.code, Code::kOk);
  const PageVerdict verdict = engine_.fetch(test_key(1));
  EXPECT_EQ(verdict.verdict, Verdict::kReady);
  EXPECT_EQ(verdict.version, put.version);
  EXPECT_EQ(engine_.put_number_of(test_key(1)), 7);
}

TEST_P(FetchTest, PageThatWasNeverPutIsAMiss) {
  const PageVerdict verdict = engine_.fetch(test_key(1));
  EXPECT_EQ(verdict.verdict, Verdict::kRecompute);
  EXPECT_EQ(verdict.reason, Reason::kMiss);
}

TEST_P(FetchTest, WarmFetchIsOneRoundTripAndColdOneIsTwo) {
  ASSERT_EQ(engine_.put(test_key(1), 1).code, Code::kOk);
  const LaneStats before = engine_.lane().stats();
  ASSERT_EQ(engine_.fetch(test_key(1)).verdict, Verdict::kReady);
  const LaneStats cold = engine_.lane().stats();
  EXPECT_EQ(cold.posts - before.posts, 2u);
  EXPECT_EQ(cold.operations - before.operations, 3u);  // two buckets, then the page
  ASSERT_EQ(engine_.fetch(test_key(1)).verdict, Verdict::kReady);
  const LaneStats warm = engine_.lane().stats();
  EXPECT_EQ(warm.posts - cold.posts, 1u);
  EXPECT_EQ(warm.operations - cold.operations, 1u);
}

TEST_P(FetchTest, NewerVersionReplacesCachedLocation) {
  ASSERT_EQ(engine_.put(test_key(1), 1).code, Code::kOk);
  ASSERT_EQ(engine_.fetch(test_key(1)).verdict, Verdict::kReady);
  const PutResult second = engine_.put(test_key(1), 2);
  const PageVerdict verdict = engine_.fetch(test_key(1));
  ASSERT_EQ(verdict.verdict, Verdict::kReady);
  EXPECT_EQ(verdict.version, second.version);
  EXPECT_EQ(engine_.put_number_of(test_key(1)), 2);
}

TEST_P(FetchTest, RemovedPageIsAMiss) {
  ASSERT_EQ(engine_.put(test_key(1), 1).code, Code::kOk);
  ASSERT_EQ(engine_.fetch(test_key(1)).verdict, Verdict::kReady);
  const PageKey key = test_key(1);
  EXPECT_EQ(client_->remove({&key, 1}, engine_.deadline()).wait().value(), 1u);
  EXPECT_EQ(engine_.fetch(test_key(1)).reason, Reason::kMiss);
  EXPECT_FALSE(engine_.lane().contains(key, engine_.deadline()));
}

TEST_P(FetchTest, PutWhoseDeadlineHasPassedLeavesReadsAlone) {
  ASSERT_EQ(engine_.put(test_key(1), 1).code, Code::kOk);
  std::vector<PutRequest> requests;
  for (size_t i = 0; i < 32; ++i) requests.push_back({test_key(100 + i), engine_.slice(i)});
  Put put = client_->put(requests, 1);
  for (const PutResult& result : put.wait()) EXPECT_EQ(result.code, Code::kTimeout);
  EXPECT_EQ(engine_.fetch(test_key(1)).verdict, Verdict::kReady);
  EXPECT_EQ(engine_.lane().stats().channels_ended, 0u);
  EXPECT_EQ(engine_.put(test_key(2), 1).code, Code::kOk);
}

TEST_P(FetchTest, LanesOpenedOneAfterAnotherAreNotUsedUp) {
  for (uint64_t i = 0; i < 2 * cluster_.options().max_lanes; ++i) {
    ASSERT_TRUE(client_->open_lane().has_value()) << i;
  }
}

TEST_P(FetchTest, TooManyLanesAtOnceAreRefusedWithASentence) {
  std::vector<Lane> lanes;
  for (uint64_t i = 1; i < cluster_.options().max_lanes; ++i) {
    lanes.push_back(client_->open_lane().value());
  }
  const auto refused = client_->open_lane();
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message.find("max_lanes"), std::string::npos);
}

TEST_P(FetchTest, UnregisteredDestinationEndsAtOnceAndAlone) {
  ASSERT_EQ(engine_.put(test_key(1), 1).code, Code::kOk);
  std::vector<std::byte> elsewhere(kPageBytes);
  PageRequest request = {test_key(1), 0, engine_.slice(1)};
  request.destination.data = elsewhere.data();
  request.destination.local_key = 0xDEAD;
  PageVerdict verdict;
  const uint64_t deadline = engine_.deadline();
  engine_.lane().fetch({&request, 1}, {&verdict, 1}, deadline).wait();
  EXPECT_EQ(verdict.verdict, Verdict::kRecompute);
  EXPECT_LT(client_->clock().now_ns(), deadline);
  EXPECT_EQ(engine_.fetch(test_key(1)).verdict, Verdict::kReady);
}

TEST_P(FetchTest, NoMoreAreUnderWayThanLandWithinTheReuseTime) {
  NodeOptions options = Cluster::small_options();
  options.page_bytes = 8 * kMiB;
  options.pool_bytes = 5 * (8 * kMiB + 64);
  options.max_staging_bytes = 64 * kMiB;
  options.evict = false;
  options.reuse_ms = 10'000;  // what is tested is not the machine's speed
  Cluster cluster(GetParam(), options);
  auto client = cluster.connect({.staging_bytes = 16 * kMiB});
  Engine engine(*client, options.page_bytes, 5);
  for (uint64_t i = 0; i < 5; ++i) ASSERT_EQ(engine.put(test_key(i), 1).code, Code::kOk);
  std::vector<PageRequest> requests;
  for (uint64_t i = 0; i < 40; ++i) requests.push_back({test_key(i % 5), 0, engine.slice(i % 5)});
  std::vector<PageVerdict> verdicts(requests.size());
  engine.lane().fetch(requests, verdicts, engine.deadline(60 * kSecond)).wait();
  for (const PageVerdict& verdict : verdicts) EXPECT_EQ(verdict.verdict, Verdict::kReady);
  EXPECT_GE(engine.lane().stats().posts, requests.size() / 4);  // at most 32 MiB in a post
}

INSTANTIATE_TEST_SUITE_P(Paths, FetchTest, testing::Values(Path::kShm, Path::kTcp, Path::kTls),
                         path_name);
#ifdef FARPAGE_HAS_UCX
INSTANTIATE_TEST_SUITE_P(Ucx, FetchTest, testing::Values(Path::kUcx), path_name);
#endif

}  // namespace
}  // namespace farpage
