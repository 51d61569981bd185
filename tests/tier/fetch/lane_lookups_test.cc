// Keys looked up in an index that this process has mapped.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "tests/support/cluster.h"
#include "tests/support/engine.h"

namespace farpage {
namespace {

constexpr uint64_t kPageBytes = 4 * kKiB;

std::vector<PageKey> keys(uint64_t count) {
  std::vector<PageKey> all;
  for (uint64_t number = 0; number < count; ++number) all.push_back(test_key(number));
  return all;
}

TEST(LaneLookups, ShowEachPageThatIsThere) {
  Cluster cluster(Path::kShm);
  const auto client = cluster.connect();
  Engine engine(*client, kPageBytes, 1);
  for (uint64_t number = 0; number < 200; number += 3) {
    ASSERT_EQ(engine.put(test_key(number), 1).code, Code::kOk);
  }
  const std::vector<PageKey> asked = keys(200);
  std::vector<KeyAnswer> answers(asked.size());
  ASSERT_TRUE(engine.lane().look_up(asked, answers));
  for (uint64_t number = 0; number < 200; ++number) {
    EXPECT_EQ(answers[number], number % 3 == 0 ? KeyAnswer::kShown : KeyAnswer::kAbsent) << number;
  }
  const std::array gone = {test_key(0), test_key(6)};
  ASSERT_EQ(client->remove(gone, engine.deadline()).wait().value(), 2u);
  ASSERT_TRUE(engine.lane().look_up(asked, answers));
  EXPECT_EQ(answers[0], KeyAnswer::kAbsent);
  EXPECT_EQ(answers[3], KeyAnswer::kShown);
  EXPECT_EQ(answers[6], KeyAnswer::kAbsent);
  EXPECT_TRUE(engine.lane().look_up({}, {}));
}

TEST(LaneLookups, SayNothingWhereNoIndexIsMapped) {
  Cluster cluster(Path::kTcp);
  const auto client = cluster.connect();
  Engine engine(*client, kPageBytes, 1);
  ASSERT_EQ(engine.put(test_key(0), 1).code, Code::kOk);
  std::array<KeyAnswer, 1> answers = {};
  EXPECT_FALSE(engine.lane().look_up(keys(1), answers));
}

// Its memory is mapped still, and nobody is to believe it.
TEST(LaneLookups, SayNothingOnceTheNodesLeaseHasEnded) {
  NodeOptions options = Cluster::small_options();
  options.lease_ms = 200;
  Cluster cluster(Path::kShm, options);
  const auto client = cluster.connect();
  Engine engine(*client, kPageBytes, 1);
  ASSERT_EQ(engine.put(test_key(0), 1).code, Code::kOk);
  std::array<KeyAnswer, 1> answers = {};
  ASSERT_TRUE(engine.lane().look_up(keys(1), answers));
  cluster.stop();
  // A client hears of a node's end; the view's own end comes at the latest after its lease.
  const uint64_t patience_ns = client->clock().now_ns() + 20 * kSecond;
  while (engine.lane().look_up(keys(1), answers) && client->clock().now_ns() < patience_ns) {
    engine.lane().wait(client->clock().now_ns() + kMillisecond);
  }
  EXPECT_FALSE(engine.lane().look_up(keys(1), answers));
}

}  // namespace
}  // namespace farpage
