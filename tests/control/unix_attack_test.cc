// What a peer that keeps to no protocol can do to a memory node: be cut off.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "tests/control/served_node.h"

namespace farpage {
namespace {

class UnixAttack : public ::testing::Test {
 protected:
  // The node still serves another client, with a whole handshake.
  void expect_serving() {
    RawPeer peer = node_.connect();
    peer.send(raw_request(5, HelloRequest{kControlProtocol, kPageFormat, 64 * kKiB}));
    const auto reply = peer.receive();
    ASSERT_TRUE(reply.has_value());
    EXPECT_EQ(reply->id, 5u);
    EXPECT_TRUE(std::holds_alternative<HelloReply>(reply->reply));
  }

  ServedNode node_;
};

TEST_F(UnixAttack, RandomBytesAreCutOff) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 100; ++i) {
    RawPeer peer = node_.connect();
    std::string bytes(12 + random() % 5000, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    peer.send(bytes);
    ASSERT_TRUE(peer.closed_by_peer()) << i;
  }
  expect_serving();
}

TEST_F(UnixAttack, GoodFramesAroundRandomBytesAreRefusedWithASentence) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 100; ++i) {
    RawPeer peer = node_.connect();
    std::string body(1 + random() % 500, '\0');
    for (char& byte : body) byte = static_cast<char>(random());
    body[0] = '\x07';  // no wire type of protobuf
    peer.send(raw_frame(body));
    EXPECT_EQ(peer.refusal().code, Code::kProtocol);
    EXPECT_TRUE(peer.closed_by_peer());
  }
  expect_serving();
}

TEST_F(UnixAttack, WrongMagicIsCutOffAtOnce) {
  RawPeer peer = node_.connect();
  peer.send(raw_frame("", 0, 0, 0x31435047));
  EXPECT_TRUE(peer.closed_by_peer());
  expect_serving();
}

TEST_F(UnixAttack, LengthsOverTheLimitAreCutOffBeforeTheBodyComes) {
  for (const uint32_t bytes : {(1u << 20) + 1, 1u << 31, UINT32_MAX}) {
    RawPeer peer = node_.connect();
    peer.send(raw_frame("", bytes));
    EXPECT_TRUE(peer.closed_by_peer()) << bytes;
  }
  // A length of 2^63, where a peer takes it for eight bytes.
  RawPeer peer = node_.connect();
  const uint64_t length = uint64_t{1} << 63;
  peer.send(raw_frame("").substr(0, 4) +
            std::string(reinterpret_cast<const char*>(&length), sizeof length));
  EXPECT_TRUE(peer.closed_by_peer());
  RawPeer many = node_.connect();
  many.send(raw_frame("", 0, 17));
  EXPECT_TRUE(many.closed_by_peer());
  expect_serving();
}

TEST_F(UnixAttack, LongestFrameIsTakenWhole) {
  RawPeer peer = node_.connect();
  std::string body(1 << 20, '\x07');
  EXPECT_EQ(peer.send(raw_frame(body)), body.size() + 12);
  EXPECT_EQ(peer.refusal().code, Code::kProtocol);
  expect_serving();
}

TEST_F(UnixAttack, HalfFramesAndSilenceHoldUpNobody) {
  RawPeer worker = node_.connect();
  worker.send(raw_request(1, HelloRequest{kControlProtocol, kPageFormat, 64 * kKiB}));
  ASSERT_TRUE(worker.receive().has_value());
  const std::string whole = raw_request(1, HelloRequest{});
  std::vector<RawPeer> silent;
  for (size_t i = 0; i < 200; ++i) {
    silent.push_back(node_.connect());
    silent.back().send(i % 2 == 0 ? whole.substr(0, i % whole.size()) : raw_frame("half", 1 << 20));
    worker.send(raw_request(i + 2, StatusRequest{}));
    const auto reply = worker.receive();
    ASSERT_TRUE(reply.has_value()) << i;
    EXPECT_EQ(reply->id, i + 2);
  }
  ASSERT_TRUE(node_.wait([&] { return node_.service().connected_count() == 201; }));
  EXPECT_EQ(node_.service().disconnected_count(), 0);
  silent.clear();
  EXPECT_TRUE(node_.wait_disconnected(200));
  expect_serving();
}

TEST_F(UnixAttack, FrameThatComesByteByByteIsServed) {
  RawPeer peer = node_.connect();
  for (const char byte : raw_request(9, StatusRequest{}) + raw_request(10, StatusRequest{})) {
    ASSERT_EQ(peer.send({&byte, 1}), 1u);
    node_.settle();
  }
  for (const uint64_t id : {9u, 10u}) {
    const auto reply = peer.receive();
    ASSERT_TRUE(reply.has_value());
    EXPECT_EQ(reply->id, id);
  }
}

TEST_F(UnixAttack, DescriptorsWithoutMessagesAreCutOffAndClosed) {
  expect_serving();
  ASSERT_TRUE(node_.wait_disconnected(1));
  node_.settle();
  const size_t before = open_descriptors();
  const std::string half = raw_request(1, HelloRequest{}).substr(0, 5);
  const std::vector<int> own(16, STDERR_FILENO);
  for (int i = 0; i < 20; ++i) {
    RawPeer peer = node_.connect();
    ASSERT_TRUE(peer.send_descriptors(half.substr(0, 1), own));
    ASSERT_TRUE(peer.send_descriptors(half.substr(1, 1), own));  // 32, and no frame yet
    EXPECT_TRUE(peer.closed_by_peer());
  }
  ASSERT_TRUE(node_.wait_disconnected(21));
  node_.settle();
  EXPECT_EQ(open_descriptors(), before);
  expect_serving();
}

TEST_F(UnixAttack, MoreDescriptorsThanAFrameTakesAreNotKept) {
  const size_t before = open_descriptors();
  const std::vector<int> own(253, STDERR_FILENO);
  {
    RawPeer peer = node_.connect();
    ASSERT_TRUE(peer.send_descriptors(raw_request(1, StatusRequest{}), own));
    ASSERT_TRUE(peer.receive().has_value());
    // Those that the frame did not announce wait for the next one, and are no more than its limit.
    EXPECT_LE(open_descriptors(), before + 2 + 16);
  }
  ASSERT_TRUE(node_.wait_disconnected(1));
  node_.settle();
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(UnixAttack, DescriptorsThatWereAnnouncedAndDidNotComeEndTheConnection) {
  RawPeer peer = node_.connect();
  const std::string body = encode(NumberedRequest{1, StatusRequest{}}).body;
  peer.send(raw_frame(body, {}, 3));
  EXPECT_TRUE(peer.closed_by_peer());
  expect_serving();
}

TEST_F(UnixAttack, ClientThatNeverReadsIsCutOff) {
  RawPeer peer = node_.connect();
  std::string requests;
  for (uint64_t id = 1; requests.size() < 64 * kKiB; ++id)
    requests += raw_request(id, StatusRequest{});
  // More replies than any limit on what waits for one client. While the node reads, it is written
  // to.
  size_t sent = 0;
  while (sent < 64 * kMiB) {
    const size_t part = peer.send(requests);
    sent += part;
    if (part < requests.size()) break;
  }
  EXPECT_LT(sent, 64 * kMiB);
  EXPECT_TRUE(node_.wait_disconnected(1));
  expect_serving();
}

// Each reply carries five descriptors, and lanes can be replaced for ever.
TEST_F(UnixAttack, ClientThatOpensLanesWithoutReadingIsCutOff) {
  const size_t before = open_descriptors();
  RawPeer peer = node_.connect();
  peer.send(raw_request(1, HelloRequest{}));
  size_t most = 0;
  for (uint64_t lane = 0; lane < 2000; ++lane) {
    const std::string request = raw_request(lane + 2, OpenLaneRequest{lane});
    if (peer.send(request) < request.size()) break;
    if (lane % 50 == 0) {
      node_.settle();
      most = std::max(most, open_descriptors());
    }
  }
  EXPECT_TRUE(node_.wait_disconnected(1));
  node_.settle();
  EXPECT_LT(most, before + 400);
  peer.close();
  EXPECT_EQ(open_descriptors(), before);
  expect_serving();
}

TEST_F(UnixAttack, PeerThatIsGoneBeforeItsRefusalIsSafe) {
  for (int i = 0; i < 300; ++i) {
    RawPeer peer = node_.connect();
    peer.send(raw_frame("\x07garbage"));
    if (i % 2 == 0) {
      peer.close();
    } else {
      ::shutdown(peer.fd(), SHUT_RD);  // the refusal meets a closed door while the frame is read
      EXPECT_TRUE(peer.closed_by_peer());
    }
  }
  EXPECT_TRUE(node_.wait_disconnected(300));
  expect_serving();
}

TEST_F(UnixAttack, OtherProtocolVersionGetsASentence) {
  RawPeer peer = node_.connect();
  peer.send(raw_request(3, HelloRequest{kControlProtocol + 1, kPageFormat, 0}));
  const auto reply = peer.receive();
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->id, 3u);
  const auto* refusal = std::get_if<Refusal>(&reply->reply);
  ASSERT_NE(refusal, nullptr);
  EXPECT_EQ(refusal->code, Code::kProtocol);
  EXPECT_NE(refusal->message.find("run the same version of farpage on both"), std::string::npos);
}

TEST_F(UnixAttack, StrangersCannotConnect) {
  const auto mode = std::filesystem::status(node_.path()).permissions();
  EXPECT_EQ(mode, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

}  // namespace
}  // namespace farpage
