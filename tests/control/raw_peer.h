#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/unique_fd.h"
#include "control/codec.h"
#include "net/stream/stream.h"
#include "tests/support/process_usage.h"

namespace farpage {

inline constexpr int kRawTimeoutMs = 20'000;

// A frame as docs/formats/control.md lays it out, with whatever its header is to claim.
inline std::string raw_frame(const std::string& body, std::optional<uint32_t> claimed_bytes = {},
                             uint32_t descriptors = 0, uint32_t magic = 0x31435046) {
  const std::array<uint32_t, 3> header = {
      magic, claimed_bytes.value_or(static_cast<uint32_t>(body.size())), descriptors};
  return std::string(reinterpret_cast<const char*>(header.data()), sizeof header) + body;
}

inline std::string raw_request(uint64_t id, Request request) {
  return raw_frame(encode(NumberedRequest{id, std::move(request)}).body);
}

// One end of a connection that keeps to no protocol.
class RawPeer {
 public:
  explicit RawPeer(UniqueFd fd) : stream_(std::make_unique<PlainStream>(std::move(fd))) {}
  explicit RawPeer(std::unique_ptr<Stream> stream) : stream_(std::move(stream)) {}
  static RawPeer connect(const std::string& path) {
    UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_un address = address_of(path);
    EXPECT_EQ(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0)
        << std::strerror(errno);
    return RawPeer(std::move(fd));
  }
  static sockaddr_un address_of(const std::string& path) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    return address;
  }

  int fd() const { return stream_->fd(); }
  void close() { stream_.reset(); }
  void shut_writing() { ::shutdown(fd(), SHUT_WR); }

  // As much as goes out before the peer closes or `timeout_ms` pass without room.
  size_t send(std::string_view bytes, int timeout_ms = kRawTimeoutMs) {
    size_t sent = 0;
    while (sent < bytes.size()) {
      const iovec part = {const_cast<char*>(bytes.data() + sent), bytes.size() - sent};
      const Transfer moved = stream_->write({&part, 1});
      if (moved.state == StreamState::kWouldBlock && wait(moved.events, timeout_ms)) continue;
      if (moved.state != StreamState::kMoved) break;
      sent += moved.bytes;
    }
    return sent;
  }

  bool send_descriptors(const std::string& bytes, std::span<const int> descriptors) {
    alignas(cmsghdr) std::array<char, CMSG_SPACE(253 * sizeof(int))> control = {};
    std::string copy = bytes;
    iovec part = {copy.data(), copy.size()};
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(rights), descriptors.data(), descriptors.size_bytes());
    return ::sendmsg(fd(), &message, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
  }

  // Reads one reply; nothing once the peer has closed or says nothing for long. Descriptors are
  // dropped.
  std::optional<NumberedReply> receive() {
    while (true) {
      if (incoming_.size() >= 12) {
        uint32_t bytes = 0;
        std::memcpy(&bytes, incoming_.data() + 4, sizeof bytes);
        if (incoming_.size() - 12 >= bytes) {
          auto reply = decode_reply(Frame{incoming_.substr(12, bytes), {}});
          incoming_.erase(0, 12 + size_t{bytes});
          EXPECT_TRUE(reply.has_value());
          return reply ? std::optional(std::move(*reply)) : std::nullopt;
        }
      }
      if (!read_more()) return std::nullopt;
    }
  }
  // The refusal that ends a connection.
  Refusal refusal() {
    auto reply = receive();
    if (!reply || !std::holds_alternative<Refusal>(reply->reply)) {
      ADD_FAILURE() << "no refusal came";
      return {Code::kOk, ""};
    }
    EXPECT_EQ(reply->id, 0u);
    return std::get<Refusal>(std::move(reply->reply));
  }
  bool closed_by_peer() {
    while (read_more()) continue;
    return ended_;
  }

 private:
  bool wait(short events, int timeout_ms) const {
    pollfd waiting = {fd(), events, 0};
    return ::poll(&waiting, 1, timeout_ms) == 1;
  }
  bool read_more() {
    std::array<char, 4096> buffer;
    const iovec part = {buffer.data(), buffer.size()};
    const Transfer got = stream_->read({&part, 1});
    if (got.state == StreamState::kWouldBlock) return wait(got.events, kRawTimeoutMs);
    ended_ = got.state == StreamState::kEnded;
    incoming_.append(buffer.data(), got.bytes);
    return !ended_;
  }

  std::unique_ptr<Stream> stream_;
  std::string incoming_;
  bool ended_ = false;
};

}  // namespace farpage
