// A peer that keeps to no protocol, however it has come in, only gets cut off by a memory node.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tests/control/served_node.h"

namespace farpage {
namespace {

class Attack : public ::testing::TestWithParam<Reach> {
 protected:
  ServedNode node_{{.reach = GetParam()}};
};

INSTANTIATE_TEST_SUITE_P(Over, Attack, ::testing::Values(Reach::kUnix, Reach::kTcp, Reach::kTls),
                         reach_name);

TEST_P(Attack, RandomBytesAreCutOff) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 100; ++i) {
    RawPeer peer = node_.connect();
    std::string bytes(12 + random() % 5000, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    peer.send(bytes);
    ASSERT_TRUE(peer.closed_by_peer()) << i;
  }
  node_.expect_serving();
}

TEST_P(Attack, GoodFramesAroundRandomBytesAreRefusedWithASentence) {
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
  node_.expect_serving();
}

TEST_P(Attack, WrongMagicIsCutOffAtOnce) {
  RawPeer peer = node_.connect();
  peer.send(raw_frame("", 0, 0, 0x31435047));
  EXPECT_TRUE(peer.closed_by_peer());
  node_.expect_serving();
}

TEST_P(Attack, LengthsOverTheLimitAreCutOffBeforeTheBodyComes) {
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
  node_.expect_serving();
}

TEST_P(Attack, LongestFrameIsTakenWhole) {
  RawPeer peer = node_.connect();
  std::string body(1 << 20, '\x07');
  EXPECT_EQ(peer.send(raw_frame(body)), body.size() + 12);
  EXPECT_EQ(peer.refusal().code, Code::kProtocol);
  node_.expect_serving();
}

TEST_P(Attack, LongFramesOfManyClientsAreNotKept) {
  constexpr uint32_t kPaddingBytes = 1'000'000;
  std::string body = encode(NumberedRequest{1, StatusRequest{}}).body;
  body += "\x7a\xc0\x84\x3d";  // a field that nobody knows, of so many bytes
  body += std::string(kPaddingBytes, 'x');
  const std::string frame = raw_frame(body);
  std::vector<RawPeer> peers;
  size_t first_bytes = 0;
  for (int i = 0; i < 60; ++i) {
    peers.push_back(node_.connect());
    ASSERT_EQ(peers.back().send(frame), frame.size());
    ASSERT_TRUE(peers.back().receive().has_value()) << i;
    if (i == 9) first_bytes = resident_bytes();
  }
  // Of the 50 MB that came since.
  EXPECT_TRUE(has_taken_less_than(25 * kMiB, first_bytes))
      << first_bytes << " " << resident_bytes();
}

// A node that bears little silence.
class Silence : public ::testing::TestWithParam<Reach> {
 protected:
  static constexpr size_t kMostClients = 201;

  // A request that says that its client is there.
  static bool renews(RawPeer& client, uint64_t id) {
    client.send(raw_request(id, RenewRequest{}));
    const auto reply = client.receive();
    return reply && reply->id == id && std::holds_alternative<RenewReply>(reply->reply);
  }
  RawPeer greet() {
    RawPeer client = node_.connect();
    client.send(raw_request(1, node_.hello()));
    EXPECT_TRUE(client.receive().has_value());
    return client;
  }

  ServedNode node_{{.reach = GetParam(), .max_clients = kMostClients, .silence_ns = kSecond}};
};

INSTANTIATE_TEST_SUITE_P(Over, Silence, ::testing::Values(Reach::kUnix, Reach::kTcp, Reach::kTls),
                         reach_name);

TEST_P(Silence, HalfFramesAndSilenceHoldUpNobodyAndEnd) {
  RawPeer worker = greet();
  const std::string whole = raw_request(1, HelloRequest{});
  std::vector<RawPeer> silent;
  uint64_t id = 1;
  for (size_t i = 0; i < 200; ++i) {
    silent.push_back(node_.connect());
    silent.back().send(i % 2 == 0 ? whole.substr(0, i % whole.size()) : raw_frame("half", 1 << 20));
    ASSERT_TRUE(renews(worker, ++id)) << i;
  }
  const uint64_t deadline = boottime_clock().now_ns() + 20 * kSecond;
  while (node_.service().disconnected_count() < 200 && boottime_clock().now_ns() < deadline) {
    ASSERT_TRUE(renews(worker, ++id));
  }
  EXPECT_EQ(node_.service().disconnected_count(), 200);
  for (RawPeer& peer : silent) EXPECT_EQ(peer.refusal().code, Code::kTimeout);
  EXPECT_TRUE(renews(worker, ++id));
}

TEST_P(Silence, SilentClientsMakeRoomForOthers) {
  std::vector<RawPeer> silent;
  for (size_t i = 0; i < kMostClients; ++i) {
    // One that has greeted holds staging on top.
    silent.push_back(i % 2 == 0 ? greet() : node_.connect());
  }
  for (RawPeer& peer : silent) EXPECT_TRUE(peer.closed_by_peer());
  node_.expect_serving();
}

TEST_P(Silence, QuestionsAloneAreNoSignOfAClient) {
  RawPeer peer = node_.connect();
  uint64_t id = 0;
  const uint64_t deadline = boottime_clock().now_ns() + 20 * kSecond;
  do {
    peer.send(raw_request(++id, StatusRequest{}));
  } while (peer.receive().value_or(NumberedReply{0, {}}).id == id &&
           boottime_clock().now_ns() < deadline);
  EXPECT_TRUE(node_.wait_disconnected(1));
}

TEST_P(Attack, FrameThatComesByteByByteIsServed) {
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

TEST_P(Attack, DescriptorsThatWereAnnouncedAndDidNotComeEndTheConnection) {
  RawPeer peer = node_.connect();
  const std::string body = encode(NumberedRequest{1, StatusRequest{}}).body;
  peer.send(raw_frame(body, {}, 3));
  EXPECT_TRUE(peer.closed_by_peer());
  node_.expect_serving();
}

TEST_P(Attack, ClientThatNeverReadsIsCutOff) {
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
  node_.expect_serving();
}

TEST_P(Attack, PeerThatIsGoneBeforeItsRefusalIsSafe) {
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
  node_.expect_serving();
}

TEST_P(Attack, OtherProtocolVersionGetsASentence) {
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

}  // namespace
}  // namespace farpage
