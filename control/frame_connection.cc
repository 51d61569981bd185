#include "control/frame_connection.h"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "control/unix_stream.h"

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
constexpr size_t kKeptBytes = 64 * 1024;  // what a longer frame took is given back
constexpr size_t kMaxOutgoingBytes = 8 * kMaxFrameBytes;
constexpr size_t kMaxOutgoingDescriptors = 16 * kMaxFrameDescriptors;

}  // namespace

FrameConnection::FrameConnection(AsioRuntime& runtime, std::unique_ptr<Stream> stream)
    : runtime_(runtime),
      stream_(std::move(stream)),
      descriptors_(dynamic_cast<UnixStream*>(stream_.get())),
      watch_(runtime.watch(stream_->fd())) {}

void FrameConnection::start(std::function<void(Frame)> on_frame,
                            std::function<void(Error)> on_end) {
  on_frame_ = std::move(on_frame);
  on_end_ = std::move(on_end);
  read_on();
}

std::function<void()> FrameConnection::later(void (FrameConnection::*step)()) {
  return [weak = weak_from_this(), step] {
    if (auto self = weak.lock()) (self.get()->*step)();
  };
}

void FrameConnection::wait(short events) {
  bool& waiting = events == POLLOUT ? awaiting_writable_ : awaiting_readable_;
  if (waiting) return;
  waiting = true;
  if (events == POLLOUT) return watch_->when_writable(later(&FrameConnection::writable));
  watch_->when_readable(later(&FrameConnection::readable));
}

void FrameConnection::readable() {
  awaiting_readable_ = false;
  turn();
}

void FrameConnection::writable() {
  awaiting_writable_ = false;
  turn();
}

void FrameConnection::pause(uint64_t delay_ns) {
  paused_ = true;
  runtime_.after(delay_ns, later(&FrameConnection::resume));
}

void FrameConnection::resume() {
  paused_ = false;
  if (!ended_ && deliver_frames()) read_on();
}

// Under TLS either direction may wait for either event, so both are tried.
void FrameConnection::turn() {
  if (ended_) return;
  write_queued();
  if (!ended_) read_available();
}

void FrameConnection::read_available() {
  if (paused_) return;
  std::array<char, kReadBytes> buffer;
  const iovec part = {buffer.data(), buffer.size()};
  const Transfer got = stream_->read({&part, 1});
  if (got.state == StreamState::kWouldBlock) return wait(got.events);
  if (got.state == StreamState::kEnded) {
    if (got.error == 0) return end({Code::kUnavailable, "the peer has closed the connection"});
    if (got.error == EMFILE) {
      return end(fail_errno(EMFILE, "cannot take a descriptor of the peer's").value());
    }
    return end({Code::kUnavailable, std::strerror(got.error)});
  }
  incoming_.append(buffer.data(), got.bytes);
  if (deliver_frames()) read_on();
}

void FrameConnection::read_on() {
  if (paused_ || ended_) return;
  if (stream_->has_buffered()) {
    runtime_.after(0, later(&FrameConnection::turn));
  } else {
    wait(POLLIN);
  }
}

// False: the connection has ended.
bool FrameConnection::deliver_frames() {
  size_t at = 0;
  while (!paused_ && incoming_.size() - at >= sizeof(FrameHeader)) {
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
    if ((descriptors_ == nullptr ? 0 : descriptors_->received().size()) < header.descriptors) {
      end({Code::kProtocol, "the peer announces descriptors that did not come"});
      return false;
    }
    Frame frame;
    frame.body = incoming_.substr(at + sizeof header, header.body_bytes);
    for (uint32_t i = 0; i < header.descriptors; ++i) {
      frame.descriptors.push_back(std::move(descriptors_->received().front()));
      descriptors_->received().pop_front();
    }
    at += sizeof header + header.body_bytes;
    on_frame_(std::move(frame));
    if (ended_) return false;
  }
  incoming_.erase(0, at);
  if (incoming_.empty() && incoming_.capacity() > kKeptBytes) incoming_.shrink_to_fit();
  if (descriptors_ != nullptr && descriptors_->received().size() > kMaxFrameDescriptors) {
    end({Code::kProtocol, "the peer sends descriptors without messages"});
    return false;
  }
  return true;
}

Result<void> FrameConnection::send(Frame frame) {
  if (!frame.descriptors.empty() && descriptors_ == nullptr) {
    return fail(Code::kInvalid,
                "this backend hands over its memory as descriptors, which a TCP connection cannot "
                "carry: reach the node through a Unix socket, or run it with another backend");
  }
  if (ended_) return {};
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
    end({Code::kExhausted, "the peer does not read its replies"});
  } else if (!awaiting_writable_) {
    write_queued();
  }
  return {};
}

void FrameConnection::write_queued() {
  while (!outgoing_.empty()) {
    Outgoing& front = outgoing_.front();
    const iovec part = {front.bytes.data() + front.sent, front.bytes.size() - front.sent};
    const Transfer sent = front.descriptors.empty()
                              ? stream_->write({&part, 1})
                              : descriptors_->write_with({&part, 1}, front.descriptors);
    if (sent.state == StreamState::kWouldBlock) return wait(sent.events);
    if (sent.state == StreamState::kEnded && (sent.error == EPIPE || sent.error == ECONNRESET)) {
      // The peer has closed. Read its last messages first (a reason, for instance), and then the
      // end.
      outgoing_.clear();
      outgoing_bytes_ = 0;
      outgoing_descriptors_ = 0;
      return;
    }
    if (sent.state == StreamState::kEnded) {
      return end({Code::kUnavailable, std::strerror(sent.error)});
    }
    outgoing_descriptors_ -= front.descriptors.size();
    front.descriptors.clear();  // they went with the first byte
    front.sent += sent.bytes;
    outgoing_bytes_ -= sent.bytes;
    if (front.sent == front.bytes.size()) outgoing_.pop_front();
  }
}

void FrameConnection::close() {
  end({Code::kAborted, "the connection was closed"});
}

void FrameConnection::end(Error error) {
  if (ended_) return;
  ended_ = true;
  const auto self = shared_from_this();
  watch_.reset();
  stream_.reset();
  if (auto on_end = std::exchange(on_end_, nullptr)) on_end(std::move(error));
}

}  // namespace farpage
