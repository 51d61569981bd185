// node.max_requests_per_s, over real connections.
#include <gtest/gtest.h>

#include <string>

#include "tests/control/served_node.h"

namespace farpage {
namespace {

constexpr uint64_t kPerSecond = 1'000;
constexpr uint64_t kFlood = 600;

class RequestLimit : public ::testing::TestWithParam<Reach> {
 protected:
  ServedNode node_{{.reach = GetParam(), .max_clients = 16, .max_requests_per_s = kPerSecond}};
};

INSTANTIATE_TEST_SUITE_P(Over, RequestLimit,
                         ::testing::Values(Reach::kUnix, Reach::kTcp, Reach::kTls), reach_name);

TEST_P(RequestLimit, FloodWaitsIsNotCutOffAndHoldsUpNobody) {
  RawPeer flooder = node_.connect();
  RawPeer other = node_.connect();
  std::string requests;
  for (uint64_t id = 1; id <= kFlood; ++id) requests += raw_request(id, StatusRequest{});
  const uint64_t start = boottime_clock().now_ns();
  ASSERT_EQ(flooder.send(requests), requests.size());
  other.send(raw_request(1, StatusRequest{}));
  ASSERT_TRUE(other.receive().has_value());
  const auto handled = static_cast<uint64_t>(node_.service().handled_count());
  const uint64_t half = boottime_clock().now_ns() - start;
  // As many as the budget had by then, and no more; unless this machine was slow, that is not all.
  EXPECT_LE(handled, kPerSecond / 10 + half * kPerSecond / kSecond + 10);
  for (uint64_t id = 1; id <= kFlood; ++id) {
    const auto reply = flooder.receive();
    ASSERT_TRUE(reply.has_value()) << id;
    ASSERT_EQ(reply->id, id);
  }
  const uint64_t took = boottime_clock().now_ns() - start;
  EXPECT_GE(took, (kFlood - kPerSecond / 10 - 10) * (kSecond / kPerSecond));
  EXPECT_LT(took, 20 * kSecond);
  EXPECT_EQ(node_.service().disconnected_count(), 0);
}

TEST_P(RequestLimit, ClientThatGoesWhileItWaitsIsForgotten) {
  {
    RawPeer flooder = node_.connect();
    std::string requests;
    for (uint64_t id = 1; id <= kFlood; ++id) requests += raw_request(id, StatusRequest{});
    flooder.send(requests);
  }
  EXPECT_TRUE(node_.wait_disconnected(1));
  RawPeer other = node_.connect();
  other.send(raw_request(1, StatusRequest{}));
  EXPECT_TRUE(other.receive().has_value());
}

}  // namespace
}  // namespace farpage
