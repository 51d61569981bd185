#include "transport/tcp/data_connection.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <utility>
#include <vector>

#include "transport/tcp/target.h"

namespace farpage::tcp {
namespace {

constexpr uint64_t kBytes = 64;
constexpr uint32_t kMany = 10'000;  // requests, of a client that asks for nothing else

// Bytes of memory on both ways, and who is told of each reply: a peer that always asks and never
// waits to read.
class AskedStream final : public Stream {
 public:
  AskedStream(UniqueFd fd, const RegionKey& region, uint32_t requests,
              std::function<void(uint64_t)> on_sent)
      : Stream(std::move(fd)), on_sent_(std::move(on_sent)) {
    for (uint32_t i = 1; i <= requests; ++i) {
      Request request = {};
      request.kind = static_cast<uint8_t>(RequestKind::kRead);
      request.sequence = i;
      request.region = region.index;
      request.generation = region.generation;
      request.bytes = kBytes;
      requests_.push_back(request);
    }
  }

  Transfer read(std::span<const iovec> parts) override {
    const auto* from = reinterpret_cast<const std::byte*>(requests_.data());
    const uint64_t all = requests_.size() * sizeof(Request);
    Transfer moved;
    for (const iovec& part : parts) {
      const uint64_t bytes = std::min<uint64_t>(part.iov_len, all - read_);
      std::memcpy(part.iov_base, from + read_, bytes);
      read_ += bytes;
      moved.bytes += bytes;
    }
    if (moved.bytes == 0) return {StreamState::kWouldBlock, POLLIN};
    return moved;
  }

  Transfer write(std::span<const iovec> parts) override {
    Transfer moved;
    for (const iovec& part : parts) moved.bytes += part.iov_len;
    on_sent_(moved.bytes);
    return moved;
  }

 private:
  std::vector<Request> requests_;
  uint64_t read_ = 0;
  std::function<void(uint64_t)> on_sent_;
};

class DataConnectionTest : public testing::Test {
 protected:
  DataConnectionTest() : region_(exports_->add({memory_.data(), kBytes, Access::kRemoteRead})) {}
  ~DataConnectionTest() override {
    loop_.run([this] { connections_.clear(); });
  }

  // On the loop.
  void connect(uint32_t requests, std::function<void(uint64_t)> on_sent) {
    std::array<int, 2> ends = {};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    peers_.emplace_back(ends[1]);
    auto stream =
        std::make_unique<AskedStream>(UniqueFd(ends[0]), region_, requests, std::move(on_sent));
    auto channel = std::make_shared<TargetState>(connections_.size(), ChannelPurpose::kRead);
    connections_.push_back(std::make_shared<DataConnection>(
        loop_, std::move(stream), std::move(channel), exports_, user_, traffic_));
    connections_.back()->start([] {});
  }

  std::array<std::byte, kBytes> memory_ = {};
  std::shared_ptr<Exports> exports_ = std::make_shared<Exports>();
  Exports::User& user_ = exports_->add_user();
  RegionKey region_;
  TrafficCounters traffic_;
  std::vector<UniqueFd> peers_;
  std::vector<std::shared_ptr<DataConnection>> connections_;
  AsioRuntime loop_;
};

// What an index tells is a few bytes: a bound of bytes alone would let a thousand of them go first.
TEST_F(DataConnectionTest, SmallRepliesGiveWayToAnotherConnection) {
  uint64_t replies = 0;  // on the loop
  bool other_is_there = false;
  std::promise<uint64_t> replies_before_other;
  const auto connect_other = [&] {
    // Its first bytes say that the channel is taken up.
    connect(1, [&, told = false](uint64_t) mutable {
      if (!std::exchange(told, true)) replies_before_other.set_value(replies);
    });
  };
  loop_.run([&] {
    connect(kMany, [&](uint64_t bytes) {
      // From now on the loop has the other's turn to give.
      if (!std::exchange(other_is_there, true)) loop_.after(0, connect_other);
      replies += bytes / (sizeof(Reply) + kBytes);
    });
  });
  auto before = replies_before_other.get_future();
  ASSERT_EQ(before.wait_for(std::chrono::seconds(60)), std::future_status::ready);
  EXPECT_LE(before.get(), 128u);
  loop_.run([this] { connections_.clear(); });  // what they tell of lies on this stack
}

}  // namespace
}  // namespace farpage::tcp
