#include <gtest/gtest.h>

#include "tests/support/engine.h"
#include "tests/support/shm_cluster.h"

namespace farpage {
namespace {

class ShmFetch : public ::testing::Test {
 protected:
  static constexpr uint64_t kPageBytes = 4 * kKiB;

  ShmCluster cluster_;
  std::unique_ptr<Client> client_ = cluster_.connect();
  Engine engine_{*client_, kPageBytes, 64};
};

TEST_F(ShmFetch, WhatWasPutComesBackWhole) {
  const PutResult put = engine_.put(test_key(1), 7);
  ASSERT_EQ(put.code, Code::kOk);
  const PageVerdict verdict = engine_.fetch(test_key(1));
  EXPECT_EQ(verdict.verdict, Verdict::kReady);
  EXPECT_EQ(verdict.version, put.version);
  EXPECT_EQ(engine_.put_number_of(test_key(1)), 7);
}

TEST_F(ShmFetch, PageThatWasNeverPutIsAMiss) {
  const PageVerdict verdict = engine_.fetch(test_key(1));
  EXPECT_EQ(verdict.verdict, Verdict::kRecompute);
  EXPECT_EQ(verdict.reason, Reason::kMiss);
}

TEST_F(ShmFetch, WarmFetchIsOneRoundTripAndColdOneIsTwo) {
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

TEST_F(ShmFetch, NewerVersionReplacesCachedLocation) {
  ASSERT_EQ(engine_.put(test_key(1), 1).code, Code::kOk);
  ASSERT_EQ(engine_.fetch(test_key(1)).verdict, Verdict::kReady);
  const PutResult second = engine_.put(test_key(1), 2);
  const PageVerdict verdict = engine_.fetch(test_key(1));
  ASSERT_EQ(verdict.verdict, Verdict::kReady);
  EXPECT_EQ(verdict.version, second.version);
  EXPECT_EQ(engine_.put_number_of(test_key(1)), 2);
}

TEST_F(ShmFetch, RemovedPageIsAMiss) {
  ASSERT_EQ(engine_.put(test_key(1), 1).code, Code::kOk);
  ASSERT_EQ(engine_.fetch(test_key(1)).verdict, Verdict::kReady);
  const PageKey key = test_key(1);
  EXPECT_EQ(client_->remove({&key, 1}, engine_.deadline()).wait().value(), 1u);
  EXPECT_EQ(engine_.fetch(test_key(1)).reason, Reason::kMiss);
  EXPECT_FALSE(engine_.lane().contains(key, engine_.deadline()));
}

}  // namespace
}  // namespace farpage
