#include "transport/tcp/initiator.h"

#include <sched.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "base/clock.h"
#include "base/units.h"
#include "net/stream/lost_packets.h"
#include "transport/peer_memory.h"

namespace farpage::tcp {
namespace {

constexpr size_t kMaxParts = 192;
// With one system call: what has landed is checked while it is in the cache, and no deadline waits
// for long.
constexpr uint64_t kReceiveBytes = 256 * kKiB;
// How long a wait keeps its core when no more than this is under way: some of what it costs a
// sleeping thread to be woken in a virtual machine.
constexpr uint64_t kSpinNs = 50 * kMicrosecond;
constexpr uint64_t kSpinOperations = 4;
constexpr uint64_t kSpinBytes = 128 * kKiB;

// Parts of one transfer, from a given byte on.
class Parts {
 public:
  explicit Parts(uint64_t skip, uint64_t most_bytes = UINT64_MAX)
      : skip_(skip), room_(most_bytes) {}

  void add(void* data, uint64_t bytes) {
    const uint64_t skipped = std::min(skip_, bytes);
    const uint64_t part = std::min(bytes - skipped, room_);
    skip_ -= skipped;
    if (part == 0) return;
    room_ -= part;
    parts_[count_++] = {static_cast<std::byte*>(data) + skipped, part};
  }
  bool has_room() const { return room_ > 0 && count_ + 3 <= kMaxParts; }
  std::span<const iovec> get() const { return std::span(parts_).first(count_); }

 private:
  uint64_t skip_;
  uint64_t room_;
  size_t count_ = 0;
  std::array<iovec, kMaxParts> parts_;
};

void add_slices(Parts& parts, const Operation& operation) {
  for (int i = 0; i < operation.local_count; ++i) {
    parts.add(operation.local[i].data, operation.local[i].bytes);
  }
}

bool is_read(const Operation& operation) {
  return operation.kind == OperationKind::kRead;
}

}  // namespace

Result<std::unique_ptr<TcpInitiator>> TcpInitiator::make(
    std::unique_ptr<Stream> stream, std::shared_ptr<const LocalRegistrations> local) {
  auto readiness = DescriptorSet::make();
  if (!readiness) return tl::unexpected(readiness.error());
  if (auto added = readiness->add(stream->fd(), POLLIN); !added) {
    return tl::unexpected(added.error());
  }
  auto flights = Mapping::anonymous(kMaxInFlight * sizeof(Flight));
  if (!flights) return tl::unexpected(flights.error());
  return std::unique_ptr<TcpInitiator>(new TcpInitiator(
      std::move(stream), std::move(local), std::move(*readiness), std::move(*flights)));
}

TcpInitiator::TcpInitiator(std::unique_ptr<Stream> stream,
                           std::shared_ptr<const LocalRegistrations> local, DescriptorSet readiness,
                           Mapping flights)
    : stream_(std::move(stream)),
      readiness_(std::move(readiness)),
      local_(std::move(local)),
      flights_(std::move(flights)),
      places_(kMaxInFlight) {
  free_.reserve(kMaxInFlight);
  for (uint32_t place = kMaxInFlight; place-- > 0;) free_.push_back(static_cast<uint16_t>(place));
}

Result<RemoteRegion> TcpInitiator::import_region(RegionExport region, const RegionUse& use) {
  const auto refuse = [](const char* why) {
    return fail(Code::kProtocol, std::string("the peer's region is refused: ") + why);
  };
  Imported imported = {{}, use};
  if (const char* why = why_unusable(region, use)) return refuse(why);
  if (region.opaque.size() != sizeof imported.key) return refuse("tcp does not know its name");
  std::memcpy(&imported.key, region.opaque.data(), sizeof imported.key);
  imported_.push_back(imported);
  return RemoteRegion{static_cast<uint32_t>(imported_.size() - 1)};
}

Operation& TcpInitiator::next() {
  FARPAGE_CHECK(written_ - polled_ < kMaxInFlight);
  places_[written_ % kMaxInFlight] = free_.back();
  free_.pop_back();
  return flight(written_++).operation;
}

Status TcpInitiator::post() {
  for (; posted_ != written_; ++posted_) {
    if (state_ == State::kOpen) describe(flight(posted_));
  }
  if (state_ == State::kOpen) send();
  return state_ == State::kOpen ? Status{}
                                : Status{Code::kUnavailable, vendor_, "the channel is closed"};
}

// Its request, as it goes out.
void TcpInitiator::describe(Flight& flight) {
  const Operation& operation = flight.operation;
  const Imported& imported = imported_[operation.remote.index];
  check_use(operation, imported.use);
  flight.refused = refusals_.refuses(operation, may_begin(operation, *local_));
  flight.request = {};
  if (!flight.refused) flight.request.sequence = ++last_sequence_;
  flight.request.kind =
      static_cast<uint8_t>(is_read(operation) ? RequestKind::kRead : RequestKind::kWrite);
  flight.request.flags = operation.has_immediate ? kHasImmediate : 0;
  flight.request.region = imported.key.index;
  flight.request.generation = imported.key.generation;
  flight.request.offset = operation.remote_offset;
  flight.request.bytes = operation.bytes();
  flight.request.immediate = operation.immediate;
}

uint64_t TcpInitiator::Flight::bytes_out() const {
  if (refused) return 0;
  return sizeof request + (is_read(operation) ? 0 : request.bytes);
}

uint64_t TcpInitiator::Flight::bytes_in() const {
  return refused ? 0 : sizeof reply + reply.bytes;
}

// As much as the socket takes.
void TcpInitiator::send() {
  while (state_ == State::kOpen && sending_ != posted_) {
    Parts parts(sent_bytes_);
    for (uint64_t number = sending_; number != posted_ && parts.has_room(); ++number) {
      Flight& next = flight(number);
      if (next.refused) continue;
      parts.add(&next.request, sizeof next.request);
      if (is_read(next.operation)) continue;
      if (!may_begin(next.operation, *local_)) return break_off(EFAULT);
      add_slices(parts, next.operation);
    }
    if (!parts.get().empty()) {
      const Transfer sent = stream_->write(parts.get());
      if (sent.state == StreamState::kWouldBlock) return count_received();
      if (sent.state == StreamState::kEnded) return break_off(sent.error);
      sent_bytes_ += sent.bytes;
    }
    while (sending_ != posted_ && sent_bytes_ >= flight(sending_).bytes_out()) {
      sent_bytes_ -= flight(sending_++).bytes_out();
    }
  }
  count_received();
}

size_t TcpInitiator::poll(std::span<Completion> completions) {
  if (state_ == State::kOpen) send();
  if (state_ == State::kOpen && polled_ == ended_) receive(completions.size());
  size_t count = 0;
  while (count < completions.size() && polled_ != posted_) {
    const Flight& first = flight(polled_);
    Completion& completion = completions[count];
    completion = {};
    completion.tag = first.operation.tag;
    if (polled_ == ended_) {
      if (state_ == State::kOpen) break;
      // The first of those that a broken connection leaves behind has failed, the rest with it.
      completion.outcome =
          state_ == State::kBroken && vendor_ != 0 ? Outcome::kFailed : Outcome::kAborted;
      completion.vendor = std::exchange(vendor_, 0);
      ++ended_;
    } else if (first.refused) {
      completion.outcome = Outcome::kRefused;
    }
    free_.push_back(places_[polled_++ % kMaxInFlight]);
    ++count;
  }
  return count;
}

// Reads what has come, at most to the end of `most` operations. Replies are taken to be good: where
// one is not, the connection ends with it, and nothing behind it is used.
void TcpInitiator::receive(size_t most) {
  // Bytes that nothing asked for are not an answer.
  const uint64_t last = std::min<uint64_t>(sending_, ended_ + most);
  Parts parts(received_bytes_, kReceiveBytes);
  for (uint64_t number = ended_; number != last && parts.has_room(); ++number) {
    Flight& next = flight(number);
    if (next.refused) continue;
    parts.add(&next.reply, sizeof next.reply);
    if (!is_read(next.operation)) continue;
    if (!may_begin(next.operation, *local_)) {
      if (number == ended_) return break_off(EFAULT);
      break;
    }
    add_slices(parts, next.operation);
  }
  if (parts.get().empty()) return;
  const Transfer got = stream_->read(parts.get());
  if (got.state == StreamState::kWouldBlock) return;
  if (got.state == StreamState::kEnded) return break_off(got.error == 0 ? ECONNRESET : got.error);
  received_bytes_ += got.bytes;
  count_received();
}

// The operations whose replies are here, and those that get none.
void TcpInitiator::count_received() {
  while (ended_ != sending_) {
    const Flight& first = flight(ended_);
    if (!first.refused) {
      if (received_bytes_ < sizeof first.reply) return;
      if (!is_valid(first)) return break_off(first.reply.code == 0 ? EPROTO : EACCES);
    }
    if (received_bytes_ < first.bytes_in()) return;
    received_bytes_ -= first.bytes_in();
    ++ended_;
  }
}

bool TcpInitiator::is_valid(const Flight& flight) const {
  return flight.reply.code == 0 && flight.reply.sequence == flight.request.sequence &&
         flight.reply.bytes == (is_read(flight.operation) ? flight.request.bytes : 0);
}

void TcpInitiator::wait(uint64_t deadline_ns) {
  if (arm() == 0) return;
  if (const uint64_t spin = spin_ns(); spin > 0) {
    const uint64_t spin_until = std::min(deadline_ns, boottime_clock().now_ns() + spin);
    while (boottime_clock().now_ns() < spin_until) {
      if (wait_for(descriptor(), POLLIN, 0)) return;
      ::sched_yield();  // to the node's thread, if it is on this core
    }
  }
  wait_for(descriptor(), POLLIN, deadline_ns);
}

uint64_t TcpInitiator::arm() {
  if (state_ != State::kOpen || polled_ != ended_) return 0;
  if (stream_->has_buffered() && ended_ != posted_) return 0;
  const auto events = static_cast<short>(POLLIN | (sending_ != posted_ ? POLLOUT : 0));
  if (awaited_ != events) readiness_.change(stream_->fd(), events);
  awaited_ = events;
  return kNever;
}

uint64_t TcpInitiator::spin_ns() const {
  return expects_soon() ? kSpinNs : 0;
}

// Little is under way, so it may be here before a sleeping thread could be woken.
bool TcpInitiator::expects_soon() const {
  uint64_t bytes = 0;
  if (posted_ - ended_ > kSpinOperations) return false;
  for (uint64_t number = ended_; number != posted_; ++number) {
    bytes += flight(number).request.bytes;
  }
  return bytes > 0 && bytes <= kSpinBytes;
}

void TcpInitiator::break_off(int32_t vendor) {
  vendor_ = vendor != 0 ? vendor : ECONNRESET;
  state_ = State::kBroken;
  end_stream();
}

void TcpInitiator::close() {
  state_ = State::kClosed;
  end_stream();
}

void TcpInitiator::end_stream() {
  if (stream_ != nullptr) {
    warn_of_lost_packets(stream_->fd());
    readiness_.remove(stream_->fd());
  }
  stream_.reset();
}

}  // namespace farpage::tcp
