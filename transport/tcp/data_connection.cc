#include "transport/tcp/data_connection.h"

#include <algorithm>
#include <cstring>

#include "base/units.h"
#include "net/stream/lost_packets.h"

namespace farpage::tcp {
namespace {

// With one system call: for so long a region that goes has to wait.
constexpr uint64_t kTransferBytes = 256 * kKiB;
// Before another connection of the same thread has its turn: large pages are bounded by their
// bytes, and what an index tells by its number.
constexpr uint64_t kTurnBytes = 512 * kKiB;
constexpr uint32_t kTurnReplies = 64;
constexpr int kTurnTransfers = 32;
constexpr uint64_t kSplitBytes = 32 * kKiB;
// Of replies with so many bytes all but the first are sent from the file behind the memory. A
// shorter one is copied sooner: it costs a system call and a packet less, or shares them.
constexpr uint64_t kFileBytes = 256 * kKiB;
// What is copied of such a reply, with its header and those of the replies before it.
constexpr uint64_t kCopiedBytes = kSplitBytes;

}  // namespace

DataConnection::DataConnection(AsioRuntime& loop, std::unique_ptr<Stream> stream,
                               std::shared_ptr<TargetState> channel,
                               std::shared_ptr<const Exports> exports, Exports::User& user,
                               TrafficCounters& traffic)
    : loop_(loop),
      stream_(std::move(stream)),
      plain_(dynamic_cast<PlainStream*>(stream_.get())),
      watch_(loop.watch(stream_->fd())),
      channel_(std::move(channel)),
      exports_(std::move(exports)),
      user_(user),
      traffic_(traffic) {}

void DataConnection::start(std::function<void()> on_end) {
  on_end_ = std::move(on_end);
  traffic_.connections.fetch_add(1, std::memory_order_relaxed);
  reply(0, Code::kOk, nullptr);
  advance();
}

void DataConnection::wake() {
  if (stream_ == nullptr) return;
  if (channel_->is_closed()) return end();
  if (immediate_waits_ && !turn_comes_) advance();
}

void DataConnection::advance() {
  turn_bytes_ = 0;
  turn_replies_ = 0;
  for (int i = 0; i < kTurnTransfers; ++i) {
    if (turn_bytes_ >= kTurnBytes || turn_replies_ >= kTurnReplies) break;
    if (channel_->is_closed()) return end();
    if (immediate_waits_ && !finish_write()) return;  // woken when there is room
    if (count_ > 0) {
      const Progress sent = send();
      if (sent == Progress::kEnded) return end();
      if (sent == Progress::kBlocked) return await(blocked_on_);
      if (count_ > 0) continue;
    }
    if (refused_) return end();
    if (read_all_there_was_ && !stream_->has_buffered()) {
      read_all_there_was_ = false;
      return await(POLLIN);
    }
    const Progress received = receive();
    if (received == Progress::kEnded) return end();
    if (received == Progress::kBlocked) return await(blocked_on_);
  }
  turn_comes_ = true;
  loop_.after(0, [weak = weak_from_this()] {
    auto self = weak.lock();
    if (self == nullptr || self->stream_ == nullptr) return;
    self->turn_comes_ = false;
    self->advance();
  });
}

DataConnection::Progress DataConnection::receive() {
  const Exports::Use use(*exports_, user_);
  if (channel_->is_closed()) return Progress::kEnded;
  std::array<iovec, 2> parts;
  size_t count = 0;
  const uint64_t payload_left = writing_ ? write_.bytes - written_ : 0;
  const uint64_t part = std::min(payload_left, kTransferBytes);
  if (payload_left > 0) {
    const auto entry = use.find({write_.region, write_.generation});
    if (!entry) return Progress::kEnded;
    parts[count++] = {entry->data + write_.offset + written_, part};
  }
  // Behind a write comes its payload, which must not be read into the requests.
  const size_t room =
      (channel_->purpose == ChannelPurpose::kStage ? sizeof(Request) : sizeof requests_) -
      request_bytes_;
  // It came behind a write whose immediate had no room until now.
  if (room == 0 && payload_left == 0) {
    take_requests(use);
    return Progress::kMoved;
  }
  if (part == payload_left) {
    parts[count++] = {reinterpret_cast<std::byte*>(requests_.data()) + request_bytes_, room};
  }
  const Transfer got = stream_->read(std::span(parts).first(count));
  if (got.state != StreamState::kMoved) return stopped(got);
  turn_bytes_ += got.bytes;
  const uint64_t payload = std::min<uint64_t>(got.bytes, part);
  read_all_there_was_ = got.bytes < part + (part == payload_left ? room : 0);
  request_bytes_ += got.bytes - payload;
  written_ += payload;
  if (writing_ && (payload < payload_left || !finish_write())) return Progress::kMoved;
  take_requests(use);
  return Progress::kMoved;
}

void DataConnection::take_requests(const Exports::Use& use) {
  size_t taken = 0;
  while (request_bytes_ - taken * sizeof(Request) >= sizeof(Request) && !refused_) {
    take(requests_[taken++], use);
  }
  request_bytes_ -= taken * sizeof(Request);
  std::memmove(requests_.data(), requests_.data() + taken, request_bytes_);
}

void DataConnection::take(const Request& request, const Exports::Use& use) {
  const bool reads = request.kind == static_cast<uint8_t>(RequestKind::kRead);
  const auto refuse = [&](Code code) {
    traffic_.refused.fetch_add(1, std::memory_order_relaxed);
    refused_ = true;
    reply(request.sequence, code, nullptr);
  };
  if (request.sequence != next_sequence_++ || (request.flags & ~kHasImmediate) != 0 ||
      (reads && request.flags != 0) || request.reserved != 0 || request.reserved_too != 0 ||
      (!reads && request.kind != static_cast<uint8_t>(RequestKind::kWrite)) ||
      reads != (channel_->purpose == ChannelPurpose::kRead) ||
      (request.bytes == 0 && (reads || (request.flags & kHasImmediate) == 0))) {
    return refuse(Code::kProtocol);
  }
  const auto entry = use.find({request.region, request.generation});
  if (!entry) return refuse(Code::kNotFound);
  const bool permitted =
      reads ? entry->access == Access::kRemoteRead
            : entry->access == Access::kRemoteWrite && entry->channel == channel_->number;
  if (!permitted) return refuse(Code::kDenied);
  if (request.offset > entry->bytes || request.bytes > entry->bytes - request.offset) {
    return refuse(Code::kInvalid);
  }
  if (reads) {
    traffic_.reads.fetch_add(1, std::memory_order_relaxed);
    traffic_.read_bytes.fetch_add(request.bytes, std::memory_order_relaxed);
    return reply(request.sequence, Code::kOk, &request);
  }
  writing_ = true;
  write_ = request;
  written_ = 0;
  if (request.bytes == 0) finish_write();
}

void DataConnection::reply(uint32_t sequence, Code code, const Request* read) {
  Pending& pending = replies_[(first_ + count_++) % kMostReplies];
  pending = {};
  pending.reply.sequence = sequence;
  pending.reply.code = static_cast<uint32_t>(code);
  if (read == nullptr) return;
  pending.region = {read->region, read->generation};
  pending.offset = read->offset;
  pending.reply.bytes = read->bytes;
}

DataConnection::Progress DataConnection::send() {
  const Exports::Use use(*exports_, user_);
  if (channel_->is_closed()) return Progress::kEnded;
  std::array<iovec, 2 * kMostReplies> parts;
  size_t count = 0;
  uint64_t skip = sent_;
  uint64_t room = kTransferBytes;
  // A page that travels alone goes in two parts: its reader copies the first out while the second
  // is copied in.
  if (count_ == 1 && sent_ == 0 && replies_[first_].reply.bytes >= kSplitBytes) {
    room = replies_[first_].reply.bytes / 2;
  }
  const auto add = [&](const void* data, uint64_t bytes) {
    const uint64_t skipped = std::min(skip, bytes);
    const uint64_t part = std::min(bytes - skipped, room);
    skip -= skipped;
    if (part == 0) return;
    room -= part;
    parts[count++] = {const_cast<std::byte*>(static_cast<const std::byte*>(data)) + skipped, part};
  };
  for (uint32_t i = 0; i < count_ && room > 0; ++i) {
    const Pending& pending = replies_[(first_ + i) % kMostReplies];
    add(&pending.reply, sizeof pending.reply);
    if (pending.reply.bytes == 0) continue;
    // Gone since it was asked for: what has been promised cannot be kept.
    const auto entry = use.find(pending.region);
    if (!entry) return Progress::kEnded;
    const bool by_file = plain_ != nullptr && entry->file >= 0 && pending.reply.bytes >= kFileBytes;
    if (by_file && i == 0 && sent_ >= sizeof pending.reply + kCopiedBytes) {
      return send_file(*entry, pending);
    }
    add(entry->data + pending.offset, by_file ? kCopiedBytes : pending.reply.bytes);
    if (by_file) break;
  }
  const Transfer sent = stream_->write(std::span(parts).first(count));
  if (sent.state != StreamState::kMoved) return stopped(sent);
  count_sent(sent.bytes);
  return Progress::kMoved;
}

// The peer gets bytes as they are when they leave this host, after the sending and before it has
// them: as with an RDMA read. It takes a page only where header, CRC and the time since it asked
// say so (rule 3), and no slot is written again while that time can still be short enough. After
// the region or the channel has gone, what is queued refers to pages that nobody else gets before
// they have left.
DataConnection::Progress DataConnection::send_file(const Exports::Entry& entry,
                                                   const Pending& pending) {
  const uint64_t done = sent_ - sizeof(Reply);
  const uint64_t part = std::min(pending.reply.bytes - done, kTransferBytes);
  const Transfer sent = plain_->write_file(entry.file, pending.offset + done, part);
  if (sent.state != StreamState::kMoved) return stopped(sent);
  count_sent(sent.bytes);
  return Progress::kMoved;
}

void DataConnection::count_sent(uint64_t bytes) {
  turn_bytes_ += bytes;
  sent_ += bytes;
  while (count_ > 0) {
    const uint64_t whole = sizeof(Reply) + replies_[first_].reply.bytes;
    if (sent_ < whole) break;
    sent_ -= whole;
    first_ = (first_ + 1) % kMostReplies;
    --count_;
    ++turn_replies_;
  }
}

// False: it waits for room at the channel.
bool DataConnection::finish_write() {
  immediate_waits_ = (write_.flags & kHasImmediate) != 0 && !channel_->push(write_.immediate);
  if (immediate_waits_) return false;
  writing_ = false;
  traffic_.writes.fetch_add(1, std::memory_order_relaxed);
  traffic_.write_bytes.fetch_add(write_.bytes, std::memory_order_relaxed);
  reply(write_.sequence, Code::kOk, nullptr);
  return true;
}

DataConnection::Progress DataConnection::stopped(const Transfer& transfer) {
  blocked_on_ = transfer.events;
  return transfer.state == StreamState::kEnded ? Progress::kEnded : Progress::kBlocked;
}

void DataConnection::await(short events) {
  auto again = [weak = weak_from_this()] {
    auto self = weak.lock();
    if (self != nullptr && self->stream_ != nullptr) self->advance();
  };
  if (events == POLLOUT) return watch_->when_writable(std::move(again));
  watch_->when_readable(std::move(again));
}

void DataConnection::end() {
  watch_.reset();
  warn_of_lost_packets(stream_->fd());
  stream_.reset();
  traffic_.connections.fetch_sub(1, std::memory_order_relaxed);
  on_end_();
}

}  // namespace farpage::tcp
