// A put that is late costs nobody else anything: its deadline is its caller's, and the channel is
// everybody's.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "sim/sim_cluster.h"
#include "tests/support/cluster.h"
#include "tests/support/engine.h"

namespace farpage {
namespace {

constexpr uint64_t kPageBytes = 512;
constexpr uint64_t kStepNs = 300 * kMicrosecond;

SimClusterOptions roomy() {
  SimClusterOptions options;
  options.node.pool_bytes = 512 * (kPageBytes + sizeof(PageHeader));
  options.node.reuse_ms = 100;
  options.node.lease_ms = 1'000;
  return options;
}

class LatePut : public testing::Test {
 protected:
  static constexpr size_t kPages = 64;
  static constexpr uint64_t kReuseNs = 100 * kMillisecond;

  void SetUp() override {
    for (size_t i = 0; i < kPages; ++i) ASSERT_EQ(engine_.put(test_key(i), 1).code, Code::kOk);
    for (size_t i = 0; i < kPages; ++i) {
      ASSERT_EQ(engine_.fetch(test_key(i)).verdict, Verdict::kReady);
    }
    cluster_.set_network({.delay_min_ns = kStepNs, .delay_max_ns = kStepNs});
    cluster_.watch_answers([this](size_t, const Reply& reply) {
      hellos_ += std::holds_alternative<HelloReply>(reply) ? 1 : 0;
    });
  }

  uint64_t now() const { return cluster_.now_ns(); }
  void run_for(uint64_t ns) { cluster_.world().run_until(now() + ns); }
  Put put(uint64_t key, size_t frame, uint64_t in_ns) {
    fill_page(engine_.frame(frame), test_key(key), 2);
    const PutRequest request = {test_key(key), engine_.slice(frame)};
    return client_->put({&request, 1}, now() + in_ns);
  }
  void expect_nothing_ended() {
    EXPECT_EQ(hellos_, 0) << "the view is the same";
    EXPECT_EQ(engine_.lane().stats().channels_ended, 0u);
  }

  SimCluster cluster_{1, roomy()};
  std::unique_ptr<Client> client_ = cluster_.connect(0).value();
  Engine engine_{*client_, kPageBytes, 2 * kPages};
  int hellos_ = 0;
};

TEST_F(LatePut, CostsTheOthersOfItsClientNothing) {
  struct OnePage {
    PageRequest request;
    PageVerdict verdict;
    Fetch fetch;
  };
  std::vector<std::unique_ptr<OnePage>> others;
  for (size_t i = 0; i < 32; ++i) {
    auto one = std::make_unique<OnePage>();
    one->request = {test_key(i), 0, engine_.slice(i)};
    one->fetch =
        engine_.lane().fetch({&one->request, 1}, {&one->verdict, 1}, engine_.deadline(kSecond));
    others.push_back(std::move(one));
  }
  const uint64_t deadline = now() + kStepNs / 2;
  Put late = put(100, 100, kStepNs / 2);
  EXPECT_EQ(late.wait()[0].code, Code::kTimeout);
  EXPECT_EQ(now(), deadline);
  EXPECT_FALSE(late.released());

  EXPECT_EQ(put(101, 101, kSecond).wait()[0].code, Code::kOk);
  EXPECT_TRUE(late.released()) << "who puts next looks after what stands in front";
  for (const auto& other : others) {
    other->fetch.wait();
    EXPECT_EQ(other->verdict.verdict, Verdict::kReady);
  }
  expect_nothing_ended();
  EXPECT_EQ(engine_.fetch(test_key(101)).verdict, Verdict::kReady);
  EXPECT_EQ(engine_.fetch(test_key(100)).reason, Reason::kMiss) << "nobody asked for its commit";
}

TEST_F(LatePut, SourcesAreLentUntilItsWritesHaveEnded) {
  Put late = put(100, 100, kStepNs / 2);
  EXPECT_EQ(late.wait()[0].code, Code::kTimeout);
  EXPECT_FALSE(late.wait_released(now()));
  EXPECT_FALSE(late.wait_released(now() + kStepNs));
  const uint64_t before = now();
  EXPECT_TRUE(late.wait_released(now() + kSecond));
  EXPECT_TRUE(late.released());
  EXPECT_GT(now(), before);
  EXPECT_LT(now(), before + 10 * kStepNs);
  expect_nothing_ended();
}

// As an event loop does it, which waits for nothing.
TEST_F(LatePut, WhoOnlyAsksSeesItsWritesEnd) {
  Put late = put(100, 100, kStepNs / 2);
  EXPECT_EQ(late.wait()[0].code, Code::kTimeout);
  const uint64_t end = now() + kSecond;
  while (!late.released() && now() < end) cluster_.world().run_until(now() + kStepNs / 4);
  EXPECT_LT(now(), end);
  expect_nothing_ended();
}

TEST_F(LatePut, DestructorWaitsForItsWrites) {
  const uint64_t before = now();
  { const Put late = put(100, 100, kStepNs / 2); }
  EXPECT_GT(now(), before + kStepNs / 2);
  EXPECT_LT(now(), before + 10 * kStepNs);
  expect_nothing_ended();
}

TEST_F(LatePut, PutThatIsInTimeIsReleasedAtOnce) {
  Put in_time = put(100, 100, kSecond);
  EXPECT_TRUE(in_time.released());
  EXPECT_EQ(in_time.wait()[0].code, Code::kOk);
}

// Its segment is in the way until its writes have ended, and whoever waits for room looks after it.
TEST_F(LatePut, NextPutWaitsForItsSegment) {
  std::vector<PutRequest> requests;
  for (size_t i = 0; i < 2 * kPages; ++i) {
    fill_page(engine_.frame(i), test_key(200 + i), 2);
    requests.push_back({test_key(200 + i), engine_.slice(i)});
  }
  Put late = client_->put(requests, now() + kStepNs / 2);
  EXPECT_FALSE(late.released());
  Put next = client_->put(requests, now() + kSecond);
  for (const PutResult& result : next.wait()) {
    EXPECT_EQ(result.code, Code::kOk);
  }
  expect_nothing_ended();
}

TEST_F(LatePut, SilentNodeEndsTheStagingOnlyAfterL) {
  cluster_.part(cluster_.client_host(0), cluster_.node_host(0));
  const uint64_t deadline = now() + kMillisecond;
  {
    Put late = put(100, 100, kMillisecond);
    EXPECT_EQ(late.wait()[0].code, Code::kTimeout);
    EXPECT_EQ(now(), deadline);
    EXPECT_FALSE(late.wait_released(deadline + kReuseNs - kMillisecond));
  }
  EXPECT_GE(now(), deadline + kReuseNs);
  EXPECT_LE(now(), deadline + kReuseNs + 5 * kMillisecond);
  EXPECT_EQ(put(101, 101, kSecond / 100).wait()[0].code, Code::kUnavailable);
  cluster_.heal(cluster_.client_host(0), cluster_.node_host(0));
  run_for(kSecond);
  EXPECT_EQ(hellos_, 1);
  EXPECT_EQ(put(101, 101, kSecond).wait()[0].code, Code::kOk);
}

// Its copies stop at the deadline, wherever that falls.
TEST(LatePutOverShm, EndsNothingThatIsShared) {
  constexpr uint64_t kLongPage = 64 * kKiB;
  NodeOptions options = Cluster::small_options();
  options.page_bytes = kLongPage;
  options.pool_bytes = 64 * kMiB;
  Cluster cluster(Path::kShm, options);
  const auto client = cluster.connect();
  Engine engine(*client, kLongPage, 128);
  ASSERT_EQ(engine.put(test_key(0), 1).code, Code::kOk);
  std::vector<PutRequest> requests;
  for (size_t i = 1; i < 128; ++i) {
    fill_page(engine.frame(i), test_key(i), 1);
    requests.push_back({test_key(i), engine.slice(i)});
  }
  uint64_t late = 0;
  for (uint64_t in_ns = 100 * kMicrosecond; in_ns < 4 * kMillisecond; in_ns += 50 * kMicrosecond) {
    Put put = client->put(requests, engine.deadline(in_ns));
    for (const PutResult& result : put.wait()) {
      ASSERT_TRUE(result.code == Code::kOk || result.code == Code::kTimeout ||
                  result.code == Code::kExhausted)
          << code_name(result.code);
      late += result.code == Code::kTimeout ? 1 : 0;
    }
    ASSERT_TRUE(put.released());
    ASSERT_EQ(engine.fetch(test_key(0)).verdict, Verdict::kReady);
    ASSERT_EQ(engine.put(test_key(0), 1).code, Code::kOk);
  }
  EXPECT_GT(late, 0u);
  EXPECT_EQ(engine.lane().stats().channels_ended, 0u);
}

}  // namespace
}  // namespace farpage
