#include "tier/touch_blocks.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "base/clock.h"

namespace farpage {

Result<TouchBlocks::Memory> TouchBlocks::Memory::create(Fabric& fabric) {
  auto mapping = Mapping::anonymous(kPlaces * sizeof(Source));
  if (!mapping) return tl::unexpected(mapping.error());
  auto region = fabric.register_local({mapping->data(), mapping->bytes()});
  if (!region) return tl::unexpected(region.error());
  return Memory{std::move(*mapping), std::move(*region)};
}

bool TouchBlocks::leave(Block block) {
  for (size_t i = 0; i < kPlaces; ++i) {
    State expected = State::kFree;
    if (!places_[i].state.compare_exchange_strong(expected, State::kFilling,
                                                  std::memory_order_acquire)) {
      continue;
    }
    std::memcpy(source(i).slots, block.data(), block.size_bytes());
    places_[i].state.store(State::kFull);
    return true;
  }
  return false;
}

bool TouchBlocks::any_left() const {
  return std::ranges::any_of(places_,
                             [](const Place& place) { return place.state.load() == State::kFull; });
}

// The slots, then the count.
std::array<Operation, TouchBlocks::kWrites> TouchBlocks::writes_of(size_t place) const {
  const uint64_t log = staging_.bytes - kTouchLogBytes;
  const uint64_t block = written_ / kTouchBlockSlots % kTouchBlocks;
  const uint64_t at = place * sizeof(Source);
  std::array<Operation, kWrites> writes;
  for (Operation& write : writes) {
    write.kind = OperationKind::kWrite;
    write.remote = staging_;
    write.local_count = 1;
  }
  writes[0].remote_offset = log + offsetof(TouchLog, slots) + block * sizeof(Source::slots);
  writes[0].local[0] = memory_.region.slice(at + offsetof(Source, slots), sizeof(Source::slots));
  writes[1].remote_offset = log + offsetof(TouchLog, written);
  writes[1].local[0] =
      memory_.region.slice(at + offsetof(Source, written), sizeof(Source::written));
  return writes;
}

Status TouchBlocks::post(Initiator& channel, uint64_t now_ns, uint64_t& next_tag) {
  for (size_t i = 0; i < kPlaces; ++i) {
    Place& place = places_[i];
    if (place.state.load(std::memory_order_acquire) != State::kFull) continue;
    source(i).written = written_ + kTouchBlockSlots;
    std::array<Operation, kWrites> writes = writes_of(i);
    for (uint32_t write = 0; write < kWrites; ++write) writes[write].tag = next_tag + write;
    const PostResult posted = channel.post(writes, kNever);
    if (posted.accepted > 0) {
      place.first_tag = next_tag;
      place.posted_ns = now_ns;
      place.under_way = (1u << posted.accepted) - 1;
      place.state.store(State::kUnderWay, std::memory_order_relaxed);
      next_tag += kWrites;
    }
    // Without its count the block is forgotten, and the next one takes its place in the log.
    if (posted.accepted == kWrites) written_ += kTouchBlockSlots;
    if (posted.accepted < kWrites) return posted.status;
  }
  return {};
}

uint64_t TouchBlocks::oldest_ns() const {
  uint64_t oldest = kNever;
  for (const Place& place : places_) {
    if (place.state.load(std::memory_order_relaxed) != State::kUnderWay) continue;
    oldest = std::min(oldest, place.posted_ns);
  }
  return oldest;
}

bool TouchBlocks::take_ended(uint64_t tag) {
  for (Place& place : places_) {
    if (place.state.load(std::memory_order_relaxed) != State::kUnderWay) continue;
    const uint64_t write = tag - place.first_tag;
    if (write >= kWrites) continue;
    place.under_way &= ~(1u << write);
    if (place.under_way == 0) place.state.store(State::kFree, std::memory_order_release);
    return true;
  }
  return false;
}

}  // namespace farpage
