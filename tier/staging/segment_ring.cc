#include "tier/staging/segment_ring.h"

#include <algorithm>

#include "base/units.h"
#include "pagetable/touch_log.h"
#include "transport/transfer_counters.h"

namespace farpage {
namespace {

// An immediate's counter is used again only after the node has answered for it, or nothing writes
// it any more (protocol rule 16).
constexpr size_t kMaxSegments = kTransferCounters / 2;

}  // namespace

std::optional<SegmentRing::Segment> SegmentRing::allocate(uint64_t bytes) {
  const uint64_t wanted = round_up(std::max<uint64_t>(bytes, 1), kStagingAlignment);
  std::lock_guard lock(mutex_);
  if (segments_.size() >= kMaxSegments || wanted > bytes_) return std::nullopt;
  uint64_t offset = 0;
  if (!segments_.empty()) {
    const uint64_t head = segments_.front().offset;
    const uint64_t tail = segments_.back().offset + segments_.back().bytes;
    const bool wrapped = segments_.back().offset < head;
    const uint64_t end = wrapped ? head : bytes_;
    if (wanted <= end - tail) {
      offset = tail;
    } else if (wrapped || wanted > head) {
      return std::nullopt;
    }
  }
  const uint64_t id = ++last_id_;
  const auto generation = static_cast<uint32_t>(id / kTransferCounters + 1) % kTransferGenerations;
  segments_.push_back({id, offset, wanted,
                       make_immediate(static_cast<uint32_t>(id % kTransferCounters), generation),
                       false});
  return segments_.back();
}

void SegmentRing::release(uint64_t segment_id) {
  std::lock_guard lock(mutex_);
  for (Segment& segment : segments_) {
    if (segment.id == segment_id) segment.released = true;
  }
  while (!segments_.empty() && segments_.front().released) segments_.pop_front();
}

}  // namespace farpage
