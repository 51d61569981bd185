#pragma once

#include <cstdint>
#include <memory>

#include "pagetable/touch_log.h"
#include "transport/fabric.h"

namespace farpage {

// Tells the node, one-sided and a block at a time, which slots a lane reads, so that eviction
// spares them. A block that comes while the last one is still being written is dropped.
class TouchRecorder {
 public:
  // The local part, in registered memory.
  struct Buffer {
    uint32_t slots[kTouchBlockSlots];
    uint64_t written;
  };

  void attach(std::unique_ptr<Initiator> channel, const RemoteRegion& log, Buffer* buffer,
              const Slice& slice);
  // Gives the channel back. Until it is destroyed, it may still read the buffer.
  std::unique_ptr<Initiator> detach() { return std::move(channel_); }
  // The channel takes nothing any more.
  bool broken() const { return broken_; }

  void record(uint64_t slot) {
    if (channel_ == nullptr || outstanding_ > 0) return skip();
    buffer_->slots[recorded_++] = static_cast<uint32_t>(slot);
    if (recorded_ == kTouchBlockSlots) flush();
  }

 private:
  void skip();
  void flush();
  void poll();

  static constexpr uint32_t kOperations = 2;

  std::unique_ptr<Initiator> channel_;
  RemoteRegion log_;
  Buffer* buffer_ = nullptr;
  Slice slice_;
  uint32_t recorded_ = 0;
  uint64_t first_tag_ = 0;  // of the last flush; tags are never used twice
  bool broken_ = false;
  uint32_t outstanding_ = 0;  // a bit for each of its operations that has not ended
};

}  // namespace farpage
