#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "base/units.h"
#include "tests/support/data_port.h"
#include "tests/support/process_usage.h"
#include "transport/tcp/wire.h"
#include "transport/traffic.h"

namespace farpage::tcp {
namespace {

constexpr uint64_t kPoolBytes = kMiB;

// A node, and peers that have greeted it properly and then keep to no protocol.
class TcpHostilePeerTest : public testing::Test {
 protected:
  struct Peer {
    std::unique_ptr<Target> target;
    std::unique_ptr<Stream> stream;
  };

  static uint64_t soon() { return boottime_clock().now_ns() + 10 * kSecond; }

  Peer connect(ChannelPurpose purpose) {
    auto offered = node_->offer_channel(purpose).value();
    Introduction introduction = {ConnectionKind::kData, {}};
    std::memcpy(introduction.channel.data(), offered.offer.opaque.data(), 16);
    Peer peer = {std::move(offered.target),
                 dial(listener_->address(), {}, introduction, soon()).value()};
    Reply welcome = {1, 1, 1};
    EXPECT_TRUE(read_all(*peer.stream, bytes_of(welcome), soon()));
    EXPECT_EQ(welcome.code, 0u);
    return peer;
  }

  template <typename Message>
  static std::span<std::byte> bytes_of(Message& message) {
    return std::as_writable_bytes(std::span(&message, 1));
  }

  Request read_request(uint64_t offset, uint64_t bytes, uint32_t sequence = 1) {
    RegionKey key;
    std::memcpy(&key, node_->export_region(pool_)->opaque.data(), sizeof key);
    return {1, 0, 0, sequence, key.index, key.generation, offset, bytes, 0, 0};
  }
  Request write_request(const Region& region, uint64_t offset, uint64_t bytes) {
    RegionKey key;
    std::memcpy(&key, node_->export_region(region)->opaque.data(), sizeof key);
    return {2, 0, 0, 1, key.index, key.generation, offset, bytes, 0, 0};
  }

  // The code of the answer; the connection must end behind it.
  static Code refusal(Peer& peer, Request request) {
    EXPECT_TRUE(write_all(*peer.stream, bytes_of(request), soon()));
    Reply reply = {};
    EXPECT_TRUE(read_all(*peer.stream, bytes_of(reply), soon()));
    EXPECT_EQ(reply.bytes, 0u);
    std::byte more;
    EXPECT_FALSE(read_all(*peer.stream, {&more, 1}, soon()));
    return static_cast<Code>(reply.code);
  }
  bool serves(Peer& peer, uint32_t sequence = 1) {
    Request request = read_request(0, 64, sequence);
    Reply reply = {};
    std::array<std::byte, 64> page;
    return write_all(*peer.stream, bytes_of(request), soon()) &&
           read_all(*peer.stream, bytes_of(reply), soon()) && reply.code == 0 &&
           read_all(*peer.stream, page, soon());
  }

  std::unique_ptr<TcpFabric> node_ = make_tcp_fabric({.io_threads = 1}).value();
  std::unique_ptr<Listener> listener_ = serve_data(*node_);
  Region pool_ = node_->allocate_readable(kPoolBytes).value();
};

TEST_F(TcpHostilePeerTest, ReadsOutsideTheRegistrationAreRefusedAndOthersGoOn) {
  Peer other = connect(ChannelPurpose::kRead);
  struct Case {
    uint64_t offset;
    uint64_t bytes;
    Code code;
  };
  constexpr uint64_t kHalf = uint64_t{1} << 63;
  for (const auto& [offset, bytes, code] :
       {Case{kPoolBytes - 63, 64, Code::kInvalid}, Case{kPoolBytes, 1, Code::kInvalid},
        Case{0, kPoolBytes + 1, Code::kInvalid}, Case{UINT64_MAX - 63, 64, Code::kInvalid},
        Case{UINT64_MAX, 2, Code::kInvalid}, Case{64, UINT64_MAX, Code::kInvalid},
        Case{64, UINT64_MAX - 63, Code::kInvalid}, Case{0, kHalf, Code::kInvalid},
        Case{kHalf, kHalf, Code::kInvalid}, Case{0, 0, Code::kProtocol},
        Case{UINT64_MAX, 0, Code::kProtocol}}) {
    Peer peer = connect(ChannelPurpose::kRead);
    EXPECT_EQ(refusal(peer, read_request(offset, bytes)), code) << offset << " + " << bytes;
  }
  EXPECT_TRUE(serves(other));
}

TEST_F(TcpHostilePeerTest, WhatIsNoRequestIsRefused) {
  const auto changed = [&](auto change) {
    Request request = read_request(0, 64);
    change(request);
    Peer peer = connect(ChannelPurpose::kRead);
    return refusal(peer, request);
  };
  EXPECT_EQ(changed([](Request& request) { request.kind = 0; }), Code::kProtocol);
  EXPECT_EQ(changed([](Request& request) { request.kind = 3; }), Code::kProtocol);
  EXPECT_EQ(changed([](Request& request) { request.kind = 2; }), Code::kProtocol);
  EXPECT_EQ(changed([](Request& request) { request.sequence = 2; }), Code::kProtocol);
  EXPECT_EQ(changed([](Request& request) { request.flags = kHasImmediate; }), Code::kProtocol);
  EXPECT_EQ(changed([](Request& request) { request.flags = 2; }), Code::kProtocol);
  EXPECT_EQ(changed([](Request& request) { request.reserved = 1; }), Code::kProtocol);
  EXPECT_EQ(changed([](Request& request) { request.reserved_too = 1; }), Code::kProtocol);
  EXPECT_EQ(changed([](Request& request) { request.region += 1; }), Code::kNotFound);
  EXPECT_EQ(changed([](Request& request) { request.region = UINT32_MAX; }), Code::kNotFound);
  EXPECT_EQ(changed([](Request& request) { request.generation += 1; }), Code::kNotFound);
}

// I6.
TEST_F(TcpHostilePeerTest, OnlyOnesOwnStagingTakesWrites) {
  Peer owner = connect(ChannelPurpose::kStage);
  auto staging = owner.target->allocate_writable(4096).value();
  Peer stranger = connect(ChannelPurpose::kStage);
  EXPECT_EQ(refusal(stranger, write_request(staging, 0, 64)), Code::kDenied);
  Peer reader = connect(ChannelPurpose::kRead);
  EXPECT_EQ(refusal(reader, write_request(staging, 0, 64)), Code::kProtocol);
  Peer vandal = connect(ChannelPurpose::kStage);
  EXPECT_EQ(refusal(vandal, write_request(pool_, 0, 64)), Code::kDenied);
  Peer overflow = connect(ChannelPurpose::kStage);
  auto small = overflow.target->allocate_writable(4096).value();
  EXPECT_EQ(refusal(overflow, write_request(small, 4095, 2)), Code::kInvalid);
  EXPECT_EQ(staging.data()[0], std::byte{0});
  EXPECT_EQ(pool_.data()[0], std::byte{0});
}

TEST_F(TcpHostilePeerTest, StagingIsReadByNobody) {
  Peer owner = connect(ChannelPurpose::kStage);
  auto staging = owner.target->allocate_writable(4096).value();
  Peer reader = connect(ChannelPurpose::kRead);
  Request request = write_request(staging, 0, 64);
  request.kind = 1;
  EXPECT_EQ(refusal(reader, request), Code::kDenied);
}

TEST_F(TcpHostilePeerTest, HalfARequestAndSilenceDisturbNobody) {
  constexpr size_t kSilent = 2'000;
  if (!allow_descriptors(2 * kSilent + 500)) {
    GTEST_SKIP() << "hardware: this machine lets a process open too few descriptors";
  }
  const size_t resident = resident_bytes();
  std::vector<Peer> silent;
  for (size_t i = 0; i < kSilent; ++i) {
    silent.push_back(connect(ChannelPurpose::kRead));
    Request request = read_request(0, 64);
    ASSERT_TRUE(write_all(*silent.back().stream, bytes_of(request).first(1 + i % 39), soon()));
  }
  Peer other = connect(ChannelPurpose::kRead);
  EXPECT_TRUE(serves(other));
  EXPECT_TRUE(has_taken_less_than(64 * kMiB, resident)) << resident_bytes();
}

// Back-pressure: requests stay in the socket until their replies can go out.
TEST_F(TcpHostilePeerTest, APeerThatReadsNothingIsNotReadEither) {
  Peer greedy = connect(ChannelPurpose::kRead);
  const size_t resident = resident_bytes();
  uint32_t sequence = 0;
  uint64_t taken = 0;
  // Until the node takes no more for a while; the sockets' own buffers are all that it gets.
  for (bool takes = true; takes;) {
    Request request = read_request(0, kPoolBytes, ++sequence);
    takes =
        write_all(*greedy.stream, bytes_of(request), boottime_clock().now_ns() + 200 * kMillisecond)
            .has_value();
    taken += takes ? 1 : 0;
    ASSERT_LT(taken, 1'000'000u);
  }
  EXPECT_TRUE(has_taken_less_than(8 * kMiB, resident)) << resident_bytes();
  Peer other = connect(ChannelPurpose::kRead);
  EXPECT_TRUE(serves(other));
}

// Every connection has its turn, however much another one asks for and takes.
TEST_F(TcpHostilePeerTest, AGreedyPeerThatReadsEverythingHoldsUpNobody) {
  constexpr int kGreedy = 4;
  constexpr uint64_t kLargeBytes = 64 * kMiB;
  Region large = node_->allocate_readable(kLargeBytes).value();
  std::atomic<bool> stopped = false;
  std::atomic<uint64_t> taken = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kGreedy; ++i) {
    threads.emplace_back([&, peer = std::make_shared<Peer>(connect(ChannelPurpose::kRead))] {
      std::vector<std::byte> sink(kMiB);
      for (uint32_t sequence = 1; !stopped; ++sequence) {
        Request request = write_request(large, 0, kLargeBytes);
        request.kind = 1;
        request.sequence = sequence;
        if (!write_all(*peer->stream, bytes_of(request), soon())) return;
        for (uint64_t left = sizeof(Reply) + kLargeBytes; left > 0 && !stopped;) {
          const iovec part = {sink.data(), std::min<uint64_t>(left, sink.size())};
          const Transfer got = peer->stream->read(std::span(&part, 1));
          if (got.state == StreamState::kEnded) return;
          if (got.state == StreamState::kWouldBlock) wait_for(peer->stream->fd(), POLLIN, soon());
          left -= got.bytes;
          taken += got.bytes;
        }
      }
    });
  }
  Peer modest = connect(ChannelPurpose::kRead);
  constexpr uint32_t kReads = 50;
  const uint64_t before = taken;
  for (uint32_t sequence = 1; sequence <= kReads; ++sequence) {
    EXPECT_TRUE(serves(modest, sequence));
  }
  // A page waits for a turn of each of them, and not for what they have asked for.
  EXPECT_LT(taken - before, kReads * kGreedy * 8 * kMiB);
  stopped = true;
  for (std::thread& thread : threads) thread.join();
}

TEST_F(TcpHostilePeerTest, AnUnknownChannelIsRefused) {
  Introduction introduction = {ConnectionKind::kData, make_channel_id()};
  auto stream = dial(listener_->address(), {}, introduction, soon()).value();
  Reply reply = {};
  ASSERT_TRUE(read_all(*stream, bytes_of(reply), soon()));
  EXPECT_EQ(static_cast<Code>(reply.code), Code::kNotFound);
  EXPECT_EQ(dynamic_cast<const TrafficSource&>(*node_).traffic()[0].refused, 1u);
}

class TcpImmediates : public TcpHostilePeerTest, public testing::WithParamInterface<uint64_t> {};

INSTANTIATE_TEST_SUITE_P(BehindBytes, TcpImmediates, testing::Values(0, 64));

TEST_P(TcpImmediates, StopTheirSenderAloneWhileNobodyTakesThem) {
  Peer sender = connect(ChannelPurpose::kStage);
  auto staging = sender.target->allocate_writable(4096).value();
  constexpr uint32_t kCount = 1'000;
  std::vector<std::byte> all;  // so that the node finds the next request behind every payload
  for (uint32_t i = 0; i < kCount; ++i) {
    Request request = write_request(staging, 0, GetParam());
    request.flags = kHasImmediate;
    request.sequence = i + 1;
    request.immediate = i;
    std::ranges::copy(bytes_of(request), std::back_inserter(all));
    all.resize(all.size() + GetParam(), std::byte{7});
  }
  ASSERT_TRUE(write_all(*sender.stream, all, soon()));
  Peer other = connect(ChannelPurpose::kRead);
  EXPECT_TRUE(serves(other));
  uint32_t next = 0;
  const uint64_t deadline = soon();
  while (next < kCount && boottime_clock().now_ns() < deadline) {
    std::array<uint32_t, 32> some;
    const size_t count = sender.target->poll(some);
    for (size_t i = 0; i < count; ++i) EXPECT_EQ(some[i], next++);
    if (count == 0) sender.target->wait(deadline);
  }
  EXPECT_EQ(next, kCount);
}

}  // namespace
}  // namespace farpage::tcp
