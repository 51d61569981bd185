#include "net/stream/stream.h"

#include <fcntl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

#include "base/clock.h"

namespace farpage {
namespace {

constexpr uint64_t kLongestPollNs = 3'600 * kSecond;

msghdr message_of(std::span<const iovec> parts) {
  msghdr message = {};
  message.msg_iov = const_cast<iovec*>(parts.data());  // sendmsg and recvmsg only read it
  message.msg_iovlen = std::min<size_t>(parts.size(), IOV_MAX);
  return message;
}

// Moves all of `bytes`, one `step` after the other.
template <typename Step>
Result<void> move_all(Stream& stream, std::byte* data, size_t bytes, uint64_t deadline_ns,
                      const Step& step) {
  while (bytes > 0) {
    const iovec part = {data, bytes};
    const Transfer moved = step(std::span(&part, 1));
    if (moved.state == StreamState::kEnded) {
      return fail(Code::kUnavailable, moved.error == 0 ? "the peer has closed the connection"
                                                       : std::strerror(moved.error));
    }
    if (moved.state == StreamState::kWouldBlock &&
        !wait_for(stream.fd(), moved.events, deadline_ns)) {
      return fail(Code::kTimeout, "the peer has not answered in time");
    }
    data += moved.bytes;
    bytes -= moved.bytes;
  }
  return {};
}

}  // namespace

Transfer transfer_of(ssize_t moved, short events) {
  if (moved > 0) return {.bytes = static_cast<size_t>(moved)};
  if (moved < 0 && (errno == EAGAIN || errno == EINTR)) {
    return {.state = StreamState::kWouldBlock, .events = events};
  }
  return {.state = StreamState::kEnded, .error = moved < 0 ? errno : 0};
}

PlainStream::PlainStream(UniqueFd fd) : Stream(std::move(fd)) {
  ::fcntl(this->fd(), F_SETFL, ::fcntl(this->fd(), F_GETFL) | O_NONBLOCK);
}

// System calls, and not the library's functions, which ThreadSanitizer takes for plain accesses:
// the memory may be registered, and its owner reads and changes it by agreements that pass through
// the peer, as under a NIC.
Transfer PlainStream::read(std::span<const iovec> parts) {
  msghdr message = message_of(parts);
  return transfer_of(::syscall(SYS_recvmsg, fd(), &message, MSG_DONTWAIT), POLLIN);
}

Transfer PlainStream::write(std::span<const iovec> parts) {
  const msghdr message = message_of(parts);
  return transfer_of(::syscall(SYS_sendmsg, fd(), &message, MSG_DONTWAIT | MSG_NOSIGNAL), POLLOUT);
}

Transfer PlainStream::write_file(int file, uint64_t offset, uint64_t bytes) {
  auto from = static_cast<off_t>(offset);
  return transfer_of(::sendfile(fd(), file, &from, bytes), POLLOUT);
}

Result<void> read_all(Stream& stream, std::span<std::byte> bytes, uint64_t deadline_ns) {
  return move_all(stream, bytes.data(), bytes.size(), deadline_ns,
                  [&](std::span<const iovec> parts) { return stream.read(parts); });
}

Result<void> write_all(Stream& stream, std::span<const std::byte> bytes, uint64_t deadline_ns) {
  return move_all(stream, const_cast<std::byte*>(bytes.data()), bytes.size(), deadline_ns,
                  [&](std::span<const iovec> parts) { return stream.write(parts); });
}

bool wait_for(int fd, short events, uint64_t deadline_ns) {
  pollfd waiting = {fd, events, 0};
  return wait_for_any({&waiting, 1}, deadline_ns);
}

bool wait_for_any(std::span<pollfd> waiting, uint64_t deadline_ns) {
  while (true) {
    const uint64_t now = boottime_clock().now_ns();
    const uint64_t left = deadline_ns > now ? std::min(deadline_ns - now, kLongestPollNs) : 0;
    const timespec timeout = {static_cast<time_t>(left / kSecond),
                              static_cast<long>(left % kSecond)};
    const int ready = ::ppoll(waiting.data(), waiting.size(), &timeout, nullptr);
    if (ready > 0) return true;
    if (ready == 0 && left < kLongestPollNs) return false;
    if (ready < 0 && errno != EINTR) return true;  // the next transfer tells what is wrong
  }
}

}  // namespace farpage
