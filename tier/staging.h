#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "transport/fabric.h"

namespace farpage {

// This client's memory at the node, through which its puts go: a ring of segments, each of which is
// free again only when the node has answered for it. Thread-safe.
class Staging {
 public:
  struct Segment {
    uint64_t id = 0;  // ascending
    uint64_t offset = 0;
    uint64_t bytes = 0;
    uint32_t immediate = 0;  // announces that its bytes are there
    bool released = false;
  };

  Staging(std::unique_ptr<Initiator> channel, const RemoteRegion& region);

  uint64_t bytes() const { return region_.bytes; }

  // Nothing while earlier segments stand in the way.
  std::optional<Segment> allocate(uint64_t bytes);
  void release(uint64_t segment_id);

  // Writes the sources one after the other, each at a multiple of 64 bytes from the segment's
  // start, then the immediate. When it returns, nothing reads the sources any more. An error means
  // that this staging is of no more use.
  Status write(const Segment& segment, std::span<const Slice> sources, const Clock& clock,
               uint64_t deadline_ns);

 private:
  Status write_in_turn(const Segment& segment, std::span<const Slice> sources, const Clock& clock,
                       uint64_t deadline_ns);
  Status await(size_t until, const Clock& clock, uint64_t deadline_ns);
  Status abandon();
  size_t poll(std::span<Completion> completions);

  std::mutex segments_mutex_;
  std::deque<Segment> segments_;  // in the order of their offsets, modulo the ring
  uint64_t last_id_ = 0;

  // Who writes has the channel and operations_ to itself.
  std::mutex turn_mutex_;
  std::condition_variable turn_ended_;
  bool writing_ = false;

  std::unique_ptr<Initiator> channel_;
  RemoteRegion region_;
  std::vector<Operation> operations_;
  std::vector<bool> under_way_;  // those of operations_ that have been posted and have not ended
  size_t outstanding_ = 0;       // how many
  uint64_t first_tag_ = 0;       // of operations_; tags are never used twice
};

}  // namespace farpage
