// Pages that a node sends from the file behind its memory, and does not copy.
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/units.h"
#include "tests/support/certificates.h"
#include "tests/support/data_port.h"
#include "tests/support/temp_dir.h"
#include "transport/tcp/wire.h"

namespace farpage::tcp {
namespace {

constexpr uint64_t kPoolBytes = 64 * kMiB;
constexpr std::byte kFirst{1};
constexpr std::byte kThen{2};
// So much of a page lies in the reader's socket before the test goes on, the part that is copied
// included.
constexpr uint64_t kQueuedBytes = 48 * kKiB;
constexpr uint64_t kCopiedBytes = 32 * kKiB;

class TcpLargePages : public testing::Test {
 protected:
  struct Reader {
    std::unique_ptr<Target> target;
    std::unique_ptr<Stream> stream;
  };

  static uint64_t soon() { return boottime_clock().now_ns() + 10 * kSecond; }

  Reader connect(const ClientCredentials& credentials = {}) {
    auto offered = node_->offer_channel(ChannelPurpose::kRead).value();
    Introduction introduction = {ConnectionKind::kData, {}};
    std::memcpy(introduction.channel.data(), offered.offer.opaque.data(), 16);
    Reader reader = {std::move(offered.target),
                     dial(listener_->address(), credentials, introduction, soon()).value()};
    reply(reader);
    return reader;
  }

  Request read_request(uint32_t sequence, uint64_t offset, uint64_t bytes) {
    RegionKey key;
    std::memcpy(&key, node_->export_region(pool_)->opaque.data(), sizeof key);
    return {1, 0, 0, sequence, key.index, key.generation, offset, bytes, 0, 0};
  }
  static void ask(Reader& reader, std::span<const Request> requests) {
    ASSERT_TRUE(write_all(*reader.stream, std::as_bytes(requests), soon()));
  }
  static Reply reply(Reader& reader) {
    Reply reply = {1, 1, 1};
    EXPECT_TRUE(read_all(*reader.stream, std::as_writable_bytes(std::span(&reply, 1)), soon()));
    EXPECT_EQ(reply.code, 0u);
    return reply;
  }
  // As many bytes as come.
  static std::vector<std::byte> read(Reader& reader, uint64_t bytes) {
    std::vector<std::byte> page(bytes);
    uint64_t come = 0;
    while (come < bytes && read_all(*reader.stream, std::span(page).subspan(come, 1), soon())) {
      ++come;
      const iovec part = {page.data() + come, bytes - come};
      const Transfer got = reader.stream->read(std::span(&part, 1));
      if (got.state == StreamState::kEnded) break;
      come += got.bytes;
    }
    page.resize(come);
    return page;
  }

  // A reader whose page is on its way, and waits in its socket.
  Reader read_slowly() {
    std::fill_n(pool_.data(), pool_.bytes(), kFirst);
    Reader reader = connect();
    const Request request = read_request(1, 0, kPoolBytes);
    ask(reader, {&request, 1});
    int queued = 0;
    for (const uint64_t end = soon(); boottime_clock().now_ns() < end;) {
      EXPECT_EQ(::ioctl(reader.stream->fd(), FIONREAD, &queued), 0);
      if (static_cast<uint64_t>(queued) >= kQueuedBytes) break;
    }
    EXPECT_GE(static_cast<uint64_t>(queued), kQueuedBytes);
    return reader;
  }

  void fill() {
    for (uint64_t i = 0; i < pool_.bytes(); i += 8) {
      const uint64_t word = i * 0x9E3779B97F4A7C15;
      std::memcpy(pool_.data() + i, &word, 8);
    }
  }
  void expect_pages(Reader& reader) {
    constexpr uint64_t kSmall = 100;
    // Around what is copied, and what is sent from the file; each with small ones about it.
    std::vector<Request> requests;
    for (const uint64_t bytes : {256 * kKiB - 1, 256 * kKiB, 256 * kKiB + 1, 3 * kMiB - 5}) {
      for (const uint64_t size : {kSmall, bytes, bytes, kSmall}) {
        const auto sequence = static_cast<uint32_t>(requests.size() + 1);
        requests.push_back(read_request(sequence, sequence * kMiB + 7, size));
      }
    }
    ask(reader, requests);
    for (const Request& request : requests) {
      const Reply head = reply(reader);
      ASSERT_EQ(head.sequence, request.sequence);
      ASSERT_EQ(head.bytes, request.bytes);
      const auto page = read(reader, request.bytes);
      ASSERT_EQ(page.size(), request.bytes);
      EXPECT_EQ(std::memcmp(page.data(), pool_.data() + request.offset, page.size()), 0)
          << request.bytes;
    }
  }

  std::unique_ptr<TcpFabric> node_ = make_tcp_fabric({.io_threads = 1}).value();
  std::unique_ptr<Listener> listener_ = serve_data(*node_);
  Region pool_ = node_->allocate_readable(kPoolBytes).value();
};

TEST_F(TcpLargePages, ComeWholeAndInOrder) {
  fill();
  Reader reader = connect();
  expect_pages(reader);
}

TEST_F(TcpLargePages, ComeWholeAndInOrderWithTls) {
  fill();
  const TempDir dir;
  const TestCa ca(dir / "");
  TestCa::Wish wish;
  wish.names = "IP:127.0.0.1";
  listener_ = serve_data(*node_, {{}, TlsContext::for_node(ca.issue("node", wish)).value()});
  Reader reader = connect({{}, TlsContext::for_client({"", "", ca.file()}).value()});
  expect_pages(reader);
}

TEST_F(TcpLargePages, AreNotCopiedAtTheNode) {
  Reader reader = read_slowly();
  std::fill_n(pool_.data(), pool_.bytes(), kThen);
  EXPECT_EQ(reply(reader).bytes, kPoolBytes);
  const auto page = read(reader, kPoolBytes);
  ASSERT_EQ(page.size(), kPoolBytes);
  EXPECT_EQ(page[0], kFirst);
  EXPECT_EQ(page[kCopiedBytes - 1], kFirst);
  EXPECT_TRUE(std::all_of(page.begin() + kCopiedBytes, page.end(),
                          [](std::byte byte) { return byte == kThen; }));
}

TEST_F(TcpLargePages, OfARegionThatHasGoneEndWithoutAnotherRegionsBytes) {
  Reader reader = read_slowly();
  pool_ = Region();
  const Region other = node_->allocate_readable(kPoolBytes).value();
  std::fill_n(other.data(), other.bytes(), kThen);
  reply(reader);
  const auto page = read(reader, kPoolBytes);
  EXPECT_LT(page.size(), kPoolBytes);
  EXPECT_GE(page.size(), kQueuedBytes - sizeof(Reply));
  EXPECT_TRUE(std::ranges::all_of(page, [](std::byte byte) { return byte == kFirst; }));
}

// A connection that breaks after its peer's last word is EPIPE, and SIGPIPE where nobody sees to
// it.
TEST_F(TcpLargePages, WhoseReaderLeavesEndNobodyElse) {
  {
    const Reader reader = read_slowly();
    ASSERT_EQ(::shutdown(reader.stream->fd(), SHUT_WR), 0);
  }
  fill();
  Reader other = connect();
  expect_pages(other);
}

}  // namespace
}  // namespace farpage::tcp
