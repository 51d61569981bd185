#include "transport/shm/shm_initiator.h"

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "base/check.h"
#include "base/clock.h"
#include "base/units.h"
#include "integrity/crc32c.h"
#include "transport/operation_check.h"
#include "transport/peer_memory.h"
#include "transport/shm/shm_region.h"

namespace farpage::shm {
namespace {

constexpr uint64_t kClockEveryBytes = 64 * kKiB;
// A copy without a pause of more than this streams past the cache: measured in docs/performance.md.
constexpr uint64_t kKeptBurstBytes = 16 * kMiB;

}  // namespace

ShmInitiator::ShmInitiator(Mapping shared, std::shared_ptr<const LocalRegistrations> local)
    : shared_(std::move(shared)),
      local_(std::move(local)),
      immediates_(shared_.memory().immediates),
      ring_(kMaxInFlight) {}

bool ShmInitiator::target_closed() const {
  return shared_.memory().target_closed.load(std::memory_order_acquire) != 0;
}

Result<RemoteRegion> ShmInitiator::import_region(RegionExport region, const RegionUse& use) {
  if (const char* why = why_unusable(region, use)) {
    return fail(Code::kProtocol, std::string("the peer's shared memory is refused: ") + why);
  }
  auto mapping = map_peer_memory(region, shared_.id());
  if (!mapping) return tl::unexpected(mapping.error());
  std::byte* const data = mapping->data();
  imported_.push_back({data, std::make_shared<const Mapping>(std::move(*mapping)), use});
  return RemoteRegion{static_cast<uint32_t>(imported_.size() - 1)};
}

std::span<const std::byte> ShmInitiator::view(const RemoteRegion& region) const {
  if (region.index >= imported_.size()) return {};
  const Imported& imported = imported_[region.index];
  return {imported.data, imported.use.bytes};
}

std::shared_ptr<const Mapping> ShmInitiator::mapping_of(const RemoteRegion& region) const {
  return region.index < imported_.size() ? imported_[region.index].mapping : nullptr;
}

Operation& ShmInitiator::next() {
  FARPAGE_CHECK(written_ - head_ < kMaxInFlight);
  return pending(written_++).operation;
}

Status ShmInitiator::post() {
  if (target_closed()) close();
  if (head_ == tail_) burst_bytes_ = 0;
  uint32_t first = tail_;  // of those of one deadline
  for (; tail_ != written_; ++tail_) {
    Pending& next = pending(tail_);
    next.moved = false;
    next.crc = 0;
    if (!closed_) check_use(next.operation, imported_[next.operation.remote.index].use);
    if (tail_ == first || next.operation.deadline_ns == deadline_ns(first)) continue;
    sort_in(first, tail_);
    first = tail_;
  }
  sort_in(first, tail_);
  return closed_ ? Status{Code::kUnavailable, 0, "the channel is closed"} : Status{};
}

// Reads of one deadline go before those in front of them that have more time.
void ShmInitiator::sort_in(uint32_t first, uint32_t behind) {
  if (first == head_ || first == behind || deadline_ns(first) >= deadline_ns(first - 1)) return;
  const auto is_read = [this](uint32_t at) {
    return pending(at).operation.kind == OperationKind::kRead;
  };
  for (uint32_t at = first; at != behind; ++at) {
    if (!is_read(at)) return;
  }
  uint32_t place = first;
  while (place != head_ && is_read(place - 1) && deadline_ns(first) < deadline_ns(place - 1)) {
    --place;
  }
  // The operations between change places with them, each in its own order.
  reverse(place, first);
  reverse(first, behind);
  reverse(place, behind);
  bytes_since_clock_ = kClockEveryBytes;  // who has so little time may be late already
}

void ShmInitiator::reverse(uint32_t from, uint32_t to) {
  while (static_cast<int32_t>(to - from) > 1) std::swap(pending(from++), pending(--to));
}

size_t ShmInitiator::poll(std::span<Completion> completions) {
  size_t count = 0;
  for (; head_ != tail_ && count < completions.size(); ++head_, ++count) {
    prefetch_next();
    if (!execute(pending(head_), completions[count])) break;
  }
  return count;
}

void ShmInitiator::prefetch_next() const {
  if (tail_ - head_ < 2 || closed_) return;
  const Operation& next = ring_[(head_ + 1) % kMaxInFlight].operation;
  const std::byte* source = imported_[next.remote.index].data + next.remote_offset;
  for (int line = 0; line < 32; ++line) __builtin_prefetch(source + line * 64);
}

bool ShmInitiator::registered(const Imported& imported) const {
  const auto* trailer =
      reinterpret_cast<const Trailer*>(imported.data + imported.mapping->bytes() - kTrailerBytes);
  return std::atomic_ref<const uint32_t>(trailer->registered).load(std::memory_order_acquire) == 1;
}

// False: the ring has no room for the immediate yet, so the operation stays queued.
bool ShmInitiator::execute(Pending& next, Completion& completion) {
  completion = {};
  completion.tag = next.operation.tag;
  if (!carry_out(next, completion)) return false;
  last_ = completion.outcome;
  return true;
}

bool ShmInitiator::carry_out(Pending& next, Completion& completion) {
  const Operation& operation = next.operation;
  if (closed_) {
    completion.outcome = Outcome::kAborted;
    return true;
  }
  const Imported& imported = imported_[operation.remote.index];
  if (operation.follows && last_ != Outcome::kOk) {
    completion.outcome = last_;
    return true;
  }
  if (!may_begin(operation, *local_)) {
    completion.outcome = Outcome::kRefused;
    return true;
  }
  if (target_closed() || !registered(imported)) {
    completion.outcome = Outcome::kFailed;
    completion.vendor = ECONNRESET;
    return true;
  }
  if (!next.moved) completion.outcome = move_bytes(operation, imported, next.crc);
  completion.crc = next.crc;
  if (operation.has_immediate && completion.outcome == Outcome::kOk) {
    const RingResult pushed = immediates_.push(operation.immediate);
    ring_is_full_ = pushed == RingResult::kNothing;
    if (pushed == RingResult::kBroken) completion.outcome = Outcome::kFailed;
    if (ring_is_full_) {
      next.moved = true;
      if (boottime_clock().now_ns() < operation.deadline_ns) return false;
      completion.outcome = Outcome::kAborted;
      ring_is_full_ = false;
    }
  }
  return true;
}

Outcome ShmInitiator::move_bytes(const Operation& operation, const Imported& imported,
                                 uint32_t& crc) {
  const bool reads = operation.kind == OperationKind::kRead;
  std::byte* remote = imported.data + operation.remote_offset;
  // Those that are queued behind it mostly ask for as much.
  const uint64_t queued_bytes = uint64_t{tail_ - head_} * operation.bytes();
  const Stores stores =
      burst_bytes_ + queued_bytes > kKeptBurstBytes ? Stores::kStreamed : Stores::kKept;
  burst_bytes_ += operation.bytes();
  // No load of the peer's memory moves in front of registered(), whose load acquires.
  for (int i = 0; i < operation.local_count; ++i) {
    const Slice& local = operation.local[i];
    const bool wants_crc = operation.wants_crc && i == operation.local_count - 1;
    crc = 0;
    for (uint64_t done = 0; done < local.bytes;) {
      const uint64_t part = std::min(local.bytes - done, kClockEveryBytes);
      if (bytes_since_clock_ + part > kClockEveryBytes) {
        bytes_since_clock_ = 0;
        if (boottime_clock().now_ns() >= operation.deadline_ns) return Outcome::kAborted;
      }
      bytes_since_clock_ += part;
      std::byte* to = reads ? local.data + done : remote;
      const std::byte* from = reads ? remote : local.data + done;
      if (wants_crc) {
        crc = copy_with_crc32c(crc, to, from, part, stores);
      } else {
        copy_unchecked(to, from, part, stores);
      }
      remote += part;
      done += part;
    }
  }
  return Outcome::kOk;
}

void ShmInitiator::wait(uint64_t deadline_ns) {
  if (head_ != tail_ && !ring_is_full_) return;  // copies are ready at once
  nap_until(deadline_ns);
}

void ShmInitiator::close() {
  closed_ = true;
  ring_is_full_ = false;
}

}  // namespace farpage::shm
