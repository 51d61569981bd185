#include <gtest/gtest.h>

#include <vector>

#include "control/messages.h"
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

// Several requests: what is late ends by the deadline, and names the node.
TEST(LargeRemove, EndsByItsDeadline) {
  Cluster cluster;
  const auto client = cluster.connect();
  const std::vector<PageKey> keys(3 * kMaxRemoveKeys, test_key(1));
  cluster.hold();
  const auto removed = client->remove(keys, client->clock().now_ns() + kMillisecond).wait();
  cluster.go_on();
  ASSERT_FALSE(removed);
  EXPECT_EQ(removed.error().code, Code::kTimeout);
  EXPECT_NE(removed.error().message.find("did not acknowledge"), std::string::npos)
      << removed.error().message;
}

}  // namespace
}  // namespace farpage
