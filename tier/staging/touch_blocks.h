#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <utility>

#include "base/memory/mapping.h"
#include "base/status.h"
#include "pagetable/touch_log.h"
#include "transport/fabric.h"

namespace farpage {

// Blocks of touched slots on their way from a client's lanes to the log at the node, in a few
// places of registered memory:
//
//   free ──leave()──► full ──post()──► under way ──both writes have ended──► free
//
// leave() is for every thread; the rest is for the holder of the channel.
class TouchBlocks {
 public:
  using Block = std::span<const uint32_t, kTouchBlockSlots>;
  static constexpr size_t kPlaces = 8;

  // Source of its writes; goes after the channel that they go through.
  struct Memory {
    Mapping mapping;
    Region region;  // after the mapping: its registration ends first

    static Result<Memory> create(Fabric& fabric);
  };

  // The last kTouchLogBytes of the staging are the log, from `log_offset` on.
  TouchBlocks(Memory memory, const RemoteRegion& staging, uint64_t log_offset)
      : memory_(std::move(memory)), staging_(staging), log_offset_(log_offset) {}

  // Copies the block into a free place. False: there is none. Wait-free.
  bool leave(Block block);
  // Whether one has been left and not posted. Wait-free; sees what was left before the caller gave
  // the channel up, or else who left it sees that it is free.
  bool any_left() const;

  // Posts what has been left, as far as the channel has room. An error: the channel's.
  Status post(Initiator& channel, uint64_t now_ns, uint64_t& next_tag);
  // Whether it is the tag of one of its writes, which has ended now.
  bool take_ended(uint64_t tag);
  // Since when the oldest of those under way is; kNever: none is.
  uint64_t oldest_ns() const;

 private:
  static constexpr uint32_t kWrites = 2;

  enum class State : uint8_t { kFree, kFilling, kFull, kUnderWay };

  struct Source {
    uint32_t slots[kTouchBlockSlots];
    uint64_t written;
  };

  struct Place {
    std::atomic<State> state{State::kFree};
    uint64_t first_tag = 0;
    uint64_t posted_ns = 0;
    uint32_t under_way = 0;  // a bit for each of its writes
  };

  Source& source(size_t place) const {
    return reinterpret_cast<Source*>(memory_.mapping.data())[place];
  }
  void write(Initiator& channel, uint64_t tag, const Slice& from, uint64_t log_at) const;

  Memory memory_;
  const RemoteRegion staging_;
  const uint64_t log_offset_;
  std::array<Place, kPlaces> places_;
  uint64_t written_ = 0;  // slots, by all lanes
};

}  // namespace farpage
