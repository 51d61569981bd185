#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "control/messages.h"
#include "sim/sim_cluster.h"
#include "tests/support/cluster.h"
#include "tests/support/engine.h"

namespace farpage {
namespace {

constexpr uint64_t kLongNs = 60 * kSecond;  // no test waits for it

// More than a connection keeps for a peer that does not read.
TEST(LargeRemove, KeepsTheConnectionAndThePutsBesideIt) {
  Cluster cluster;
  const auto client = cluster.connect();
  Engine engine(*client, Cluster::small_options().page_bytes, 4);
  ASSERT_EQ(engine.put(test_key(1), 1, kLongNs).code, Code::kOk);
  std::vector<PageKey> keys(600'000, test_key(2));
  keys.back() = test_key(1);
  cluster.hold();
  Remove remove = client->remove(keys, engine.deadline(kLongNs));
  const PutRequest request = {test_key(3), engine.slice(0)};
  Put put = client->put({&request, 1}, engine.deadline(kLongNs));
  EXPECT_FALSE(remove.done());
  cluster.go_on();
  EXPECT_EQ(put.wait()[0].code, Code::kOk) << put.why();
  const Result<uint64_t> removed = remove.wait();
  ASSERT_TRUE(removed) << removed.error().message;
  EXPECT_EQ(*removed, 1u);
  EXPECT_EQ(engine.fetch(test_key(1)).reason, Reason::kMiss);
}

TEST(LargeRemove, NoKeysAreDoneAtOnce) {
  Cluster cluster;
  const auto client = cluster.connect();
  Remove none = client->remove({}, client->clock().now_ns() + kLongNs);
  EXPECT_TRUE(none.done());
  EXPECT_EQ(none.wait().value(), 0u);
}

// In virtual time: how long the first request takes to leave is the machine's affair.
class LateRemove : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(engine_.put(test_key(1), 1).code, Code::kOk); }

  Result<uint64_t> remove(uint64_t deadline_ns) {
    return client_->remove(std::vector<PageKey>(3 * kMaxRemoveKeys, test_key(1)), deadline_ns)
        .wait();
  }

  SimCluster cluster_{1, {}};
  std::unique_ptr<Client> client_ = cluster_.connect().value();
  Engine engine_{*client_, 512, 1};
};

// It takes several requests, of which the first has no answer yet.
TEST_F(LateRemove, EndsAtItsDeadlineAndNamesTheNode) {
  cluster_.silence_links();
  const uint64_t deadline = engine_.deadline(kMillisecond);
  const auto removed = remove(deadline);
  EXPECT_EQ(cluster_.now_ns(), deadline);
  ASSERT_FALSE(removed);
  EXPECT_EQ(removed.error().code, Code::kTimeout);
  EXPECT_THAT(removed.error().message, testing::HasSubstr("did not acknowledge"));
  EXPECT_THAT(removed.error().message, testing::HasSubstr("memory node"));
}

TEST_F(LateRemove, SendsNothingOnceItsDeadlineHasPassed) {
  const auto removed = remove(cluster_.now_ns());
  ASSERT_FALSE(removed);
  EXPECT_EQ(removed.error().code, Code::kTimeout);
  EXPECT_THAT(removed.error().message, testing::HasSubstr("before the client sent the remove"));
  EXPECT_EQ(engine_.fetch(test_key(1)).verdict, Verdict::kReady);
}

}  // namespace
}  // namespace farpage
