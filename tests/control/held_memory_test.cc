// Memory that clients take at a node by their control connections comes back however they go, and
// is bounded.
#include <gtest/gtest.h>

#include <vector>

#include "tests/control/raw_peer.h"
#include "tests/control/served_node.h"

namespace farpage {
namespace {

// One client's staging, as ServedNode::hello() asks for it.
constexpr uint64_t kEach = 64 * kKiB;

// Tries until it has been let in, as a client does.
bool gets_in(ServedNode& node) {
  const uint64_t late = boottime_clock().now_ns() + 20 * kSecond;
  while (boottime_clock().now_ns() < late) {
    RawPeer peer = node.connect();
    peer.send(raw_request(1, node.hello()));
    const auto reply = peer.receive();
    if (reply && std::holds_alternative<HelloReply>(reply->reply)) return true;
  }
  return false;
}

RawPeer greet(ServedNode& node) {
  RawPeer peer = node.connect();
  peer.send(raw_request(1, node.hello()));
  const auto reply = peer.receive();
  EXPECT_TRUE(reply && std::holds_alternative<HelloReply>(reply->reply));
  return peer;
}

TEST(HeldMemory, StagingComesBackWhenItsClientFallsSilent) {
  ServedNode node({.silence_ns = kSecond, .staging_budget_bytes = kEach});
  const RawPeer silent = greet(node);
  EXPECT_TRUE(gets_in(node));
}

TEST(HeldMemory, StagingComesBackWhenTheConnectionBreaks) {
  ServedNode node({.staging_budget_bytes = kEach});
  {
    const RawPeer first = greet(node);
    RawPeer second = node.connect();
    second.send(raw_request(1, node.hello()));
    const auto reply = second.receive();
    const auto* refused = reply ? std::get_if<Refusal>(&reply->reply) : nullptr;
    ASSERT_NE(refused, nullptr);
    EXPECT_EQ(refused->code, Code::kExhausted);
  }
  EXPECT_TRUE(gets_in(node));
}

// None of them alone leaves as much as cuts off one, 8 MiB: a status takes less than 1 KiB.
TEST(HeldMemory, WhoReadsNoRepliesIsCutOffOnceTheSumIsTooMuch) {
  constexpr int kQuestions = 8'192;
  ServedNode node({.max_unread_bytes = 512 * kKiB});
  std::vector<RawPeer> deaf;
  for (int i = 0; i < 4; ++i) deaf.push_back(greet(node));
  const std::string question = raw_request(2, StatusRequest{});
  std::string many;
  for (int i = 0; i < kQuestions; ++i) many += question;
  for (RawPeer& peer : deaf) peer.send(many);
  EXPECT_TRUE(node.wait_disconnected(1));
  node.expect_serving();
}

}  // namespace
}  // namespace farpage
