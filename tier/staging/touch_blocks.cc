#include "tier/staging/touch_blocks.h"

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

void TouchBlocks::write(Initiator& channel, uint64_t tag, const Slice& from,
                        uint64_t log_at) const {
  Operation& operation = channel.next();
  operation = {};
  operation.kind = OperationKind::kWrite;
  operation.tag = tag;
  operation.remote = staging_;
  operation.remote_offset = log_offset_ + log_at;
  operation.local_count = 1;
  operation.local[0] = from;
}

// The slots, then the count.
Status TouchBlocks::post(Initiator& channel, uint64_t now_ns, uint64_t& next_tag) {
  bool any = false;
  for (size_t i = 0; i < kPlaces && channel.room() >= kWrites; ++i) {
    Place& place = places_[i];
    if (place.state.load(std::memory_order_acquire) != State::kFull) continue;
    const uint64_t block = written_ / kTouchBlockSlots % kTouchBlocks;
    written_ += kTouchBlockSlots;
    source(i).written = written_;
    const auto part = [&](uint64_t offset, uint64_t bytes) {
      return memory_.region.slice(i * sizeof(Source) + offset, bytes);
    };
    write(channel, next_tag, part(offsetof(Source, slots), sizeof(Source::slots)),
          offsetof(TouchLog, slots) + block * sizeof(Source::slots));
    write(channel, next_tag + 1, part(offsetof(Source, written), sizeof(Source::written)),
          offsetof(TouchLog, written));
    place.first_tag = next_tag;
    place.posted_ns = now_ns;
    place.under_way = (1u << kWrites) - 1;
    place.state.store(State::kUnderWay, std::memory_order_relaxed);
    next_tag += kWrites;
    any = true;
  }
  return any ? channel.post() : Status{};
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
