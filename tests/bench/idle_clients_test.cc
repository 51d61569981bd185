#include "bench/idle_clients.h"

#include <gtest/gtest.h>

#include "tests/support/cluster.h"

namespace farpage {
namespace {

class IdleClientsTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kStagingBytes = 4 * kKiB;

  Result<IdleClients> open(uint64_t count) {
    return IdleClients::open(
        count,
        [this]() -> Result<std::unique_ptr<Client>> {
          if (connected_ == allowed_) return fail(Code::kExhausted, "the node is full");
          ++connected_;
          return cluster_.connect({.staging_bytes = kStagingBytes, .location_pages = 1});
        },
        [this] { return interrupted_; },
        [this](uint64_t done, uint64_t total) { told_.emplace_back(done, total); });
  }

  uint64_t clients_of_node() {
    return asking_->node_status(asking_->clock().now_ns() + 5 * kSecond).value().clients - 1;
  }

  Cluster cluster_;
  std::unique_ptr<Client> asking_ = cluster_.connect({.staging_bytes = 0});
  uint64_t allowed_ = 1000;
  uint64_t connected_ = 0;
  bool interrupted_ = false;
  std::vector<std::pair<uint64_t, uint64_t>> told_;
};

TEST_F(IdleClientsTest, EachIsAClientOfTheNode) {
  {
    const auto idle = open(5);
    ASSERT_TRUE(idle.has_value()) << idle.error().message;
    EXPECT_EQ(idle->count(), 5u);
    EXPECT_EQ(idle->reachable(), 5u);
    EXPECT_EQ(clients_of_node(), 5u);
    EXPECT_EQ(told_.front(), std::pair(uint64_t{1}, uint64_t{5}));
    EXPECT_EQ(told_.back(), std::pair(uint64_t{5}, uint64_t{5}));
  }
  const uint64_t end_ns = asking_->clock().now_ns() + 10 * kSecond;
  while (clients_of_node() > 0 && asking_->clock().now_ns() < end_ns) {
  }
  EXPECT_EQ(clients_of_node(), 0u);
}

TEST_F(IdleClientsTest, OneThatIsRefusedIsNamed) {
  allowed_ = 2;
  const auto idle = open(5);
  ASSERT_FALSE(idle.has_value());
  EXPECT_EQ(idle.error().code, Code::kExhausted);
  EXPECT_EQ(idle.error().message, "client 3 of 5: the node is full");
}

TEST_F(IdleClientsTest, InterruptEndsTheConnecting) {
  interrupted_ = true;
  const auto idle = open(5);
  ASSERT_FALSE(idle.has_value());
  EXPECT_EQ(idle.error().code, Code::kAborted);
  EXPECT_EQ(connected_, 0u);
}

TEST_F(IdleClientsTest, ThoseThatTheNodeHasLostAreNotReachable) {
  const auto idle = open(3);
  ASSERT_TRUE(idle.has_value()) << idle.error().message;
  cluster_.stop();
  const uint64_t end_ns = asking_->clock().now_ns() + 10 * kSecond;
  while (idle->reachable() > 0 && asking_->clock().now_ns() < end_ns) {
  }
  EXPECT_EQ(idle->reachable(), 0u);
}

}  // namespace
}  // namespace farpage
