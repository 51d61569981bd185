#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>

namespace farpage {

// A ring of bytes at the node, of which each put takes a segment. One is free again only when the
// node has answered for it, or when nothing writes to it any more. Thread-safe.
class SegmentRing {
 public:
  struct Segment {
    uint64_t id = 0;  // ascending
    uint64_t offset = 0;
    uint64_t bytes = 0;
    uint32_t immediate = 0;  // announces that its bytes are there
    bool released = false;
  };

  explicit SegmentRing(uint64_t bytes) : bytes_(bytes) {}

  uint64_t bytes() const { return bytes_; }

  // Nothing while earlier segments stand in the way.
  std::optional<Segment> allocate(uint64_t bytes);
  void release(uint64_t segment_id);

 private:
  const uint64_t bytes_;
  std::mutex mutex_;
  std::deque<Segment> segments_;  // in the order of their offsets, modulo the ring
  uint64_t last_id_ = 0;
};

}  // namespace farpage
