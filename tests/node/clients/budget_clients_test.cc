// Clients of a node whose budget for them is used up.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sim/sim_cluster.h"

namespace farpage {
namespace {

constexpr uint64_t kEach = 64 * kKiB;

SimClusterOptions for_one_of_two() {
  SimClusterOptions options;
  options.node.max_staging_bytes = options.node.staging_budget_bytes = kEach;
  options.clients = 2;
  return options;
}

TEST(BudgetClients, TheFirstConnectSaysWhyThereIsNoStaging) {
  SimCluster cluster(1, for_one_of_two());
  const auto first = cluster.connect(0, {.staging_bytes = kEach}).value();
  const auto second = cluster.connect(1, {.staging_bytes = kEach, .connect_ms = 300});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kExhausted);
  EXPECT_NE(second.error().message.find("node.staging_budget_bytes"), std::string::npos)
      << second.error().message;
  EXPECT_TRUE(cluster.connect(1, {.staging_bytes = 0})) << "who only reads gets in";
}

TEST(BudgetClients, WhoIsRefusedTriesAgainUntilThereIsRoom) {
  SimCluster cluster(1, for_one_of_two());
  const auto first = cluster.connect(0, {.staging_bytes = kEach}).value();
  const uint64_t before = cluster.now_ns();
  cluster.world().after(kSecond, [&] {
    cluster.let_dial(0, false);
    cluster.cut_links();
  });
  const auto second = cluster.connect(1, {.staging_bytes = kEach, .connect_ms = 10'000});
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_GE(cluster.now_ns(), before + kSecond);
  EXPECT_LT(cluster.now_ns(), before + 2 * kSecond);
}

TEST(BudgetClients, StagingThatNeverFitsIsRefusedAtOnce) {
  SimClusterOptions options = for_one_of_two();
  options.node.max_staging_bytes = options.node.staging_budget_bytes = kEach - 1;
  SimCluster cluster(1, options);
  const uint64_t before = cluster.now_ns();
  EXPECT_FALSE(cluster.connect(0, {.staging_bytes = kEach}));
  EXPECT_LT(cluster.now_ns(), before + kSecond);
}

// Members read each other whatever clients have taken: their links take no staging.
TEST(BudgetClients, MembersReachEachOtherWhenAllIsTaken) {
  SimClusterOptions options = for_one_of_two();
  options.nodes = 3;
  options.replicas = 2;
  SimCluster cluster(1, options);
  const auto hog = cluster.connect(0, {.staging_bytes = kEach}).value();
  std::vector<PageKey> keys;
  for (int i = 0; i < 32; ++i) keys.push_back(make_page_key("budget", std::to_string(i)));
  // So that it has a staging at each.
  (void)hog->remove(keys, cluster.now_ns() + kSecond).wait();
  cluster.end_node(NodeEnd::kStopped, 1);
  cluster.start_node(1);
  const bool reached = cluster.world().wait_until(cluster.now_ns() + 10 * kSecond, [&] {
    for (size_t node = 0; node < 3; ++node) {
      const StatusReply status = cluster.node_service(node).status();
      if (status.budget.granted_bytes != kEach) return false;
      for (const MemberStatus& other : status.fleet.others) {
        if (!other.reached) return false;
      }
    }
    return true;
  });
  EXPECT_TRUE(reached);
  std::vector<std::byte> page(512);
  const Region region = hog->register_memory({page.data(), page.size()}).value();
  for (int i = 0; i < 8; ++i) {
    const PutRequest put = {make_page_key("budget", std::to_string(i)), region.slice(0, 512)};
    EXPECT_EQ(hog->put({&put, 1}, cluster.now_ns() + kSecond).wait()[0].code, Code::kOk) << i;
  }
}

}  // namespace
}  // namespace farpage
