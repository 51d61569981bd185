#include "control/unix_connection.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace farpage {
namespace {

// A frame: magic, length of the body, number of descriptors, each four bytes little endian; the
// body.
constexpr uint32_t kFrameMagic = 0x31435046;  // "FPC1"
struct FrameHeader {
  uint32_t magic;
  uint32_t body_bytes;
  uint32_t descriptors;
};
static_assert(sizeof(FrameHeader) == 12);

constexpr size_t kReadBytes = 64 * 1024;
constexpr size_t kMaxOutgoingBytes = 8 * kMaxFrameBytes;
constexpr size_t kMaxOutgoingDescriptors = 16 * kMaxFrameDescriptors;

union DescriptorBuffer {
  cmsghdr align;
  char bytes[CMSG_SPACE(kMaxFrameDescriptors * sizeof(int))];
};

void take_descriptors(msghdr& message, std::deque<UniqueFd>& into) {
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof fd, sizeof fd);
      into.emplace_back(fd);
    }
  }
}

}  // namespace

UnixConnection::UnixConnection(Socket socket) : socket_(std::move(socket)) {
  socket_.native_non_blocking(true);
}

void UnixConnection::start(std::function<void(Frame)> on_frame, std::function<void(Error)> on_end) {
  on_frame_ = std::move(on_frame);
  on_end_ = std::move(on_end);
  await_readable();
}

void UnixConnection::await_readable() {
  socket_.async_wait(Socket::wait_read, [self = shared_from_this()](const auto& error) {
    if (self->ended_) return;
    if (error) return self->end({Code::kUnavailable, error.message()});
    self->read_available();
  });
}

void UnixConnection::read_available() {
  std::array<char, kReadBytes> buffer;
  DescriptorBuffer control;
  iovec part = {buffer.data(), buffer.size()};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof control.bytes;
  const ssize_t got = ::recvmsg(socket_.native_handle(), &message, MSG_CMSG_CLOEXEC);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return await_readable();
  if (got < 0) return end({Code::kUnavailable, std::strerror(errno)});
  take_descriptors(message, incoming_descriptors_);
  if (got == 0) return end({Code::kUnavailable, "the peer has closed the connection"});
  incoming_.append(buffer.data(), static_cast<size_t>(got));
  if (deliver_frames() && !ended_) await_readable();
}

// False: the connection has ended.
bool UnixConnection::deliver_frames() {
  size_t at = 0;
  while (incoming_.size() - at >= sizeof(FrameHeader)) {
    FrameHeader header;
    std::memcpy(&header, incoming_.data() + at, sizeof header);
    if (header.magic != kFrameMagic || header.body_bytes > kMaxFrameBytes ||
        header.descriptors > kMaxFrameDescriptors) {
      end({Code::kProtocol,
           header.magic != kFrameMagic
               ? "the peer does not speak this protocol"
               : fmt::format("the peer announces a message of {} bytes with {} descriptors; {} and "
                             "{} are the limits",
                             header.body_bytes, header.descriptors, kMaxFrameBytes,
                             kMaxFrameDescriptors)});
      return false;
    }
    if (incoming_.size() - at - sizeof header < header.body_bytes) break;
    if (incoming_descriptors_.size() < header.descriptors) {
      end({Code::kProtocol, "the peer announces descriptors that did not come"});
      return false;
    }
    Frame frame;
    frame.body = incoming_.substr(at + sizeof header, header.body_bytes);
    for (uint32_t i = 0; i < header.descriptors; ++i) {
      frame.descriptors.push_back(std::move(incoming_descriptors_.front()));
      incoming_descriptors_.pop_front();
    }
    at += sizeof header + header.body_bytes;
    on_frame_(std::move(frame));
    if (ended_) return false;
  }
  incoming_.erase(0, at);
  if (incoming_descriptors_.size() > kMaxFrameDescriptors) {
    end({Code::kProtocol, "the peer sends descriptors without messages"});
    return false;
  }
  return true;
}

void UnixConnection::send(Frame frame) {
  if (ended_) return;
  FrameHeader header = {kFrameMagic, static_cast<uint32_t>(frame.body.size()),
                        static_cast<uint32_t>(frame.descriptors.size())};
  Outgoing outgoing;
  outgoing.bytes.reserve(sizeof header + frame.body.size());
  outgoing.bytes.append(reinterpret_cast<const char*>(&header), sizeof header);
  outgoing.bytes.append(frame.body);
  outgoing.descriptors = std::move(frame.descriptors);
  outgoing_bytes_ += outgoing.bytes.size();
  outgoing_descriptors_ += outgoing.descriptors.size();
  outgoing_.push_back(std::move(outgoing));
  if (outgoing_bytes_ > kMaxOutgoingBytes || outgoing_descriptors_ > kMaxOutgoingDescriptors) {
    return end({Code::kExhausted, "the peer does not read its replies"});
  }
  if (!awaiting_writable_) write_queued();
}

void UnixConnection::write_queued() {
  while (!outgoing_.empty()) {
    Outgoing& front = outgoing_.front();
    iovec part = {front.bytes.data() + front.sent, front.bytes.size() - front.sent};
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    DescriptorBuffer control = {};
    if (!front.descriptors.empty()) {
      message.msg_control = control.bytes;
      message.msg_controllen = CMSG_SPACE(front.descriptors.size() * sizeof(int));
      cmsghdr* rights = CMSG_FIRSTHDR(&message);
      rights->cmsg_level = SOL_SOCKET;
      rights->cmsg_type = SCM_RIGHTS;
      rights->cmsg_len = CMSG_LEN(front.descriptors.size() * sizeof(int));
      for (size_t i = 0; i < front.descriptors.size(); ++i) {
        const int fd = front.descriptors[i].get();
        std::memcpy(CMSG_DATA(rights) + i * sizeof fd, &fd, sizeof fd);
      }
    }
    const ssize_t sent = ::sendmsg(socket_.native_handle(), &message, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) {
      awaiting_writable_ = true;
      socket_.async_wait(Socket::wait_write, [self = shared_from_this()](const auto& error) {
        self->awaiting_writable_ = false;
        if (!error && !self->ended_) self->write_queued();
      });
      return;
    }
    if (sent < 0 && (errno == EPIPE || errno == ECONNRESET)) {
      // The peer has closed. What it said before, why for instance, is read first, and then the
      // end.
      outgoing_.clear();
      outgoing_bytes_ = 0;
      outgoing_descriptors_ = 0;
      return;
    }
    if (sent < 0) return end({Code::kUnavailable, std::strerror(errno)});
    outgoing_descriptors_ -= front.descriptors.size();
    front.descriptors.clear();  // they went with the first byte
    front.sent += static_cast<size_t>(sent);
    outgoing_bytes_ -= static_cast<size_t>(sent);
    if (front.sent == front.bytes.size()) outgoing_.pop_front();
  }
}

void UnixConnection::close() {
  end({Code::kAborted, "the connection was closed"});
}

void UnixConnection::end(Error error) {
  if (ended_) return;
  ended_ = true;
  boost::system::error_code ignored;
  socket_.close(ignored);
  const auto self = shared_from_this();
  if (auto on_end = std::exchange(on_end_, nullptr)) on_end(std::move(error));
}

}  // namespace farpage
