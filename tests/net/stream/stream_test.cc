#include "net/stream/stream.h"

#include <climits>
#include <thread>
#include <vector>

#include "tests/net/pair.h"

namespace farpage {
namespace {

TEST(PlainStream, MovesPartsInOrder) {
  auto [one, other] = socket_pair();
  PlainStream from(std::move(one));
  PlainStream to(std::move(other));
  std::string hello = "hello ";
  std::string world = "world";
  const std::array<iovec, 2> parts = {iovec{hello.data(), 6}, iovec{world.data(), 5}};
  EXPECT_EQ(from.write(parts).bytes, 11u);
  std::string first(4, '\0');
  std::string second(20, '\0');
  const std::array<iovec, 2> places = {iovec{first.data(), 4}, iovec{second.data(), 20}};
  const Transfer got = to.read(places);
  EXPECT_EQ(got.bytes, 11u);
  EXPECT_EQ(first + second.substr(0, 7), "hello world");
  EXPECT_FALSE(to.has_buffered());
}

TEST(PlainStream, SaysWhatToWaitFor) {
  auto [one, other] = socket_pair();
  PlainStream stream(std::move(one));
  std::string bytes(100'000, 'x');
  const iovec part = {bytes.data(), bytes.size()};
  Transfer moved = stream.read({&part, 1});
  EXPECT_EQ(moved.state, StreamState::kWouldBlock);
  EXPECT_EQ(moved.events, POLLIN);
  while (moved = stream.write({&part, 1}), moved.state == StreamState::kMoved) continue;
  EXPECT_EQ(moved.state, StreamState::kWouldBlock);
  EXPECT_EQ(moved.events, POLLOUT);
}

TEST(PlainStream, PeerThatHasGoneIsAnEndAndNoSignal) {
  auto [one, other] = socket_pair();
  PlainStream stream(std::move(one));
  other.reset();
  std::string bytes(10, 'x');
  const iovec part = {bytes.data(), bytes.size()};
  Transfer moved = stream.write({&part, 1});
  EXPECT_EQ(moved.state, StreamState::kEnded);
  EXPECT_EQ(moved.error, EPIPE);
  moved = stream.read({&part, 1});
  EXPECT_EQ(moved.state, StreamState::kEnded);
  EXPECT_EQ(moved.error, 0) << "in good order";
}

TEST(PlainStream, MorePartsThanASystemCallTakesMoveInTurns) {
  auto [one, other] = socket_pair();
  PlainStream from(std::move(one));
  PlainStream to(std::move(other));
  std::string bytes(3 * IOV_MAX, 'x');
  std::vector<iovec> parts;
  for (char& byte : bytes) parts.push_back({&byte, 1});
  EXPECT_EQ(from.write(parts).bytes, static_cast<size_t>(IOV_MAX));
  EXPECT_EQ(to.read(parts).bytes, static_cast<size_t>(IOV_MAX));
}

TEST(ReadAll, TakesWhatComesInPiecesAndEndsAtTheDeadline) {
  auto [one, other] = socket_pair();
  PlainStream to(std::move(other));
  PlainStream from(std::move(one));
  std::string sent(300'000, 's');
  std::string got(300'000, '\0');
  std::thread writer(
      [&] { EXPECT_TRUE(write_all(from, std::as_bytes(std::span(sent)), soon()).has_value()); });
  EXPECT_TRUE(read_all(to, std::as_writable_bytes(std::span(got)), soon()).has_value());
  writer.join();
  EXPECT_EQ(got, sent);
  const uint64_t deadline = soon(20 * kMillisecond);
  const auto late = read_all(to, std::as_writable_bytes(std::span(got)), deadline);
  ASSERT_FALSE(late.has_value());
  EXPECT_EQ(late.error().code, Code::kTimeout);
  EXPECT_GE(boottime_clock().now_ns(), deadline);
}

}  // namespace
}  // namespace farpage
