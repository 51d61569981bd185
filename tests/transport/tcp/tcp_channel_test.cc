#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "base/clock.h"
#include "tests/support/posting.h"
#include "transport/tcp/initiator.h"

namespace farpage::tcp {
namespace {

constexpr std::byte kUntouched{0xEE};

// A channel whose node is this test, which says what it likes.
class TcpChannelTest : public testing::Test {
 protected:
  void SetUp() override {
    std::array<int, 2> ends = {};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    node_.reset(ends[0]);
    channel_ = TcpInitiator::make(std::make_unique<PlainStream>(UniqueFd(ends[1])), local_).value();
    RegionExport region;
    region.bytes = 1 << 20;
    const RegionKey key = {7, 9};
    region.opaque.assign(reinterpret_cast<const char*>(&key), sizeof key);
    remote_ = import_whole(*channel_, std::move(region)).value();
    key_ = *local_->add();
  }

  void post(uint64_t count, uint64_t bytes) {
    memory_.assign(count * bytes, kUntouched);
    std::vector<Operation> reads(count);
    for (uint64_t i = 0; i < count; ++i) {
      reads[i].tag = i;
      reads[i].remote = remote_;
      reads[i].remote_offset = i * bytes;
      reads[i].local_count = 1;
      reads[i].local[0] = {memory_.data() + i * bytes, bytes, key_};
    }
    ASSERT_EQ(post_operations(*channel_, reads).accepted, count);
  }

  Operation make_write(uint64_t bytes) {
    memory_.assign(bytes, kUntouched);
    RegionExport region;
    region.bytes = bytes;
    region.access = Access::kRemoteWrite;
    region.opaque.assign(8, '\1');
    Operation write;
    write.kind = OperationKind::kWrite;
    write.remote = import_whole(*channel_, std::move(region)).value();
    write.local_count = 1;
    write.local[0] = {memory_.data(), memory_.size(), key_};
    return write;
  }

  Request next_request() {
    Request request = {};
    EXPECT_EQ(::recv(node_.get(), &request, sizeof request, MSG_WAITALL),
              static_cast<ssize_t>(sizeof request));
    return request;
  }

  void say(const std::string& bytes) {
    ASSERT_EQ(::send(node_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  static std::string reply(uint32_t sequence, uint64_t bytes, char fill, uint32_t code = 0) {
    const Reply head = {sequence, code, bytes};
    return std::string(reinterpret_cast<const char*>(&head), sizeof head) +
           std::string(bytes, fill);
  }

  std::vector<Completion> collect(size_t count) {
    std::vector<Completion> all;
    const uint64_t deadline = boottime_clock().now_ns() + 10 * kSecond;
    while (all.size() < count && boottime_clock().now_ns() < deadline) {
      std::array<Completion, 16> some;
      const size_t got = channel_->poll(some);
      all.insert(all.end(), some.begin(), some.begin() + static_cast<ptrdiff_t>(got));
      if (got == 0) channel_->wait(deadline);
    }
    return all;
  }
  bool holds(uint64_t at, uint64_t bytes, char fill) const {
    return std::string(reinterpret_cast<const char*>(memory_.data()) + at, bytes) ==
           std::string(bytes, fill);
  }

  UniqueFd node_;
  std::shared_ptr<LocalRegistrations> local_ = std::make_shared<LocalRegistrations>();
  std::unique_ptr<TcpInitiator> channel_;
  RemoteRegion remote_;
  uint64_t key_ = 0;
  std::vector<std::byte> memory_;
};

TEST_F(TcpChannelTest, RequestsSayWhatWasPosted) {
  post(2, 100);
  next_request();
  const Request second = next_request();
  EXPECT_EQ(second.kind, 1);
  EXPECT_EQ(second.flags, 0);
  EXPECT_EQ(second.sequence, 2u);
  EXPECT_EQ(second.region, 7u);
  EXPECT_EQ(second.generation, 9u);
  EXPECT_EQ(second.offset, 100u);
  EXPECT_EQ(second.bytes, 100u);
}

TEST_F(TcpChannelTest, RepliesLandWhereverTheyAreCut) {
  const std::string all = reply(1, 10, 'a') + reply(2, 10, 'b') + reply(3, 10, 'c');
  for (size_t cut = 1; cut < all.size(); ++cut) {
    TearDown();
    SetUp();
    post(3, 10);
    say(all.substr(0, cut));
    std::array<Completion, 16> some;
    const size_t early = channel_->poll(some);
    EXPECT_EQ(early, cut / 26) << cut;
    say(all.substr(cut));
    EXPECT_EQ(early + collect(3 - early).size(), 3u) << cut;
    EXPECT_TRUE(holds(0, 10, 'a') && holds(10, 10, 'b') && holds(20, 10, 'c')) << cut;
  }
}

TEST_F(TcpChannelTest, ARefusalFailsItsOperationAndEndsThoseBehindIt) {
  post(4, 10);
  say(reply(1, 10, 'a') + reply(2, 0, 'x', 1));
  const auto ended = collect(4);
  ASSERT_EQ(ended.size(), 4u);
  EXPECT_EQ(ended[0].outcome, Outcome::kOk);
  EXPECT_EQ(ended[1].outcome, Outcome::kFailed);
  EXPECT_EQ(ended[2].outcome, Outcome::kAborted);
  EXPECT_EQ(ended[3].outcome, Outcome::kAborted);
  Operation more;
  EXPECT_EQ(post_operations(*channel_, {&more, 1}).status.code, Code::kUnavailable);
}

// However few of them the caller takes at a time, and whatever is posted meanwhile.
TEST_F(TcpChannelTest, LostConnectionFailsOneOperationAlone) {
  post(8, 10);
  const std::string second = reply(2, 10, 'b');
  say(reply(1, 10, 'a') + second.substr(0, second.size() - 1));
  node_.reset();
  std::vector<Outcome> outcomes;
  Completion one;
  for (int more = 0; more < 4; ++more) {
    while (channel_->poll({&one, 1}) == 0) channel_->wait(kNever);
    outcomes.push_back(one.outcome);
    if (more > 0) post(1, 10);
  }
  while (channel_->poll({&one, 1}) == 1) outcomes.push_back(one.outcome);
  EXPECT_EQ(outcomes.size(), 11u);
  EXPECT_EQ(outcomes[0], Outcome::kOk);
  EXPECT_EQ(outcomes[1], Outcome::kFailed);
  EXPECT_EQ(std::ranges::count(outcomes, Outcome::kAborted), 9);
}

TEST_F(TcpChannelTest, WhatIsNoReplyToTheRequestIsNotUsed) {
  for (const std::string& wrong :
       {reply(2, 10, 'a'), reply(0, 10, 'a'), reply(1, 9, 'a') + "x", reply(1, 11, 'a'),
        reply(1, 0, 'a').replace(8, 8, 8, '\xff') + std::string(10, 'a'),
        std::string(26, '\xff')}) {
    TearDown();
    SetUp();
    post(2, 10);
    say(wrong);
    say(reply(2, 10, 'b'));
    const auto ended = collect(2);
    ASSERT_EQ(ended.size(), 2u);
    EXPECT_EQ(ended[0].outcome, Outcome::kFailed);
    EXPECT_EQ(ended[1].outcome, Outcome::kAborted);
  }
}

// Sequences can be guessed: an answer that comes before its request has gone out is none.
TEST_F(TcpChannelTest, AnAnswerBeforeItsRequestEndsNothing) {
  const Operation write = make_write(8 << 20);
  ASSERT_EQ(post_operations(*channel_, {&write, 1}).accepted, 1u);  // more than the socket takes
  say(reply(1, 0, 'x'));
  std::array<Completion, 4> some;
  EXPECT_EQ(channel_->poll(some), 0u);
}

TEST_F(TcpChannelTest, ALostConnectionEndsEverything) {
  post(3, 10);
  say(reply(1, 10, 'a') + reply(2, 10, 'b').substr(0, 20));
  node_.reset();
  const auto ended = collect(3);
  ASSERT_EQ(ended.size(), 3u);
  EXPECT_EQ(ended[0].outcome, Outcome::kOk);
  EXPECT_EQ(ended[1].outcome, Outcome::kFailed);
  EXPECT_EQ(ended[2].outcome, Outcome::kAborted);
}

// A silent peer holds nothing: close() ends it all at once, and nothing lands afterwards.
TEST_F(TcpChannelTest, CloseNeedsNoWordOfThePeer) {
  post(3, 10);
  say(reply(1, 10, 'a').substr(0, 20));
  std::array<Completion, 16> some;
  EXPECT_EQ(channel_->poll(some), 0u);
  channel_->close();
  ASSERT_EQ(channel_->poll(some), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(some[i].outcome, Outcome::kAborted);
}

TEST_F(TcpChannelTest, APeerThatDoesNotReadKeepsNobodyWaiting) {
  const Operation write = make_write(1 << 20);
  const std::vector<Operation> writes(16, write);
  EXPECT_EQ(post_operations(*channel_, writes).accepted, 16u);
  const uint64_t deadline = boottime_clock().now_ns() + 5 * kMillisecond;
  while (boottime_clock().now_ns() < deadline) channel_->wait(deadline);
  std::array<Completion, 16> some;
  EXPECT_EQ(channel_->poll(some), 0u);
  channel_->close();
  EXPECT_EQ(channel_->poll(some), 16u);
}

// Notes how much is asked for with one call.
class NotedStream final : public Stream {
 public:
  NotedStream(UniqueFd fd, uint64_t& most_asked)
      : Stream(UniqueFd(::dup(fd.get()))), stream_(std::move(fd)), most_asked_(most_asked) {}
  Transfer read(std::span<const iovec> parts) override {
    uint64_t asked = 0;
    for (const iovec& part : parts) asked += part.iov_len;
    most_asked_ = std::max(most_asked_, asked);
    return stream_.read(parts);
  }
  Transfer write(std::span<const iovec> parts) override { return stream_.write(parts); }

 private:
  PlainStream stream_;
  uint64_t& most_asked_;
};

// Decision 0010: a deadline never waits for longer than such a part takes.
TEST_F(TcpChannelTest, ALongPageComesInSeveralReads) {
  std::array<int, 2> ends = {};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  node_.reset(ends[0]);
  uint64_t most_asked = 0;
  channel_ =
      TcpInitiator::make(std::make_unique<NotedStream>(UniqueFd(ends[1]), most_asked), local_)
          .value();
  RegionExport region;
  region.bytes = 1 << 20;
  region.opaque.assign(8, '\1');
  remote_ = import_whole(*channel_, std::move(region)).value();
  constexpr uint64_t kPageBytes = 1 << 19;
  post(2, kPageBytes);
  std::array<Completion, 16> some;
  EXPECT_EQ(channel_->poll(some), 0u);
  EXPECT_EQ(most_asked, 256u << 10);
}

}  // namespace
}  // namespace farpage::tcp
