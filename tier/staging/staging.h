#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "tier/staging/segment_ring.h"
#include "tier/staging/touch_blocks.h"
#include "transport/fabric.h"

namespace farpage {

// This client's memory at the node: a ring of segments, through which its puts go, and at its end
// the log in which its lanes note what they read. All of them share one channel, which one thread
// has at a time. Thread-safe.
class Staging {
 public:
  using Segment = SegmentRing::Segment;

  // The writes of one segment.
  class Transfer {
   public:
    // None of them reads its source, or writes to the segment, any more. Wait-free.
    bool ended() const { return ended_.load(std::memory_order_acquire); }

   private:
    friend class Staging;
    uint64_t segment_ = 0;
    uint64_t deadline_ns_ = 0;
    uint64_t first_tag_ = 0;
    std::vector<bool> under_way_;  // a bit for each of its writes
    size_t outstanding_ = 0;       // how many
    bool refused_ = false;         // a source is not of registered memory
    // Watched since a write of it, or of a put in front, has ended last; from its deadline on.
    uint64_t silent_ns_ = 0;
    bool cut_off_ = false;  // the backend has ended some of it at the deadline
    bool late_ = false;     // no put waits for it any more
    std::atomic<bool> ended_{false};
  };

  struct Written {
    Status status;
    // Still reads the sources, and the segment is the staging's to release. Null: neither.
    std::shared_ptr<const Transfer> under_way;
  };

  // Takes up the node's offer. Blocks, at most until the deadline. `clock` outlives the staging.
  static Result<std::unique_ptr<Staging>> connect(Fabric& fabric, ChannelOffer offer,
                                                  RegionExport memory, const Clock& clock,
                                                  uint64_t reuse_ns, uint64_t deadline_ns);
  // `bytes`: of the region. `reuse_ns`: `read_window`, for which a channel may be silent about late
  // writes.
  Staging(TouchBlocks::Memory touches, std::unique_ptr<Initiator> channel,
          const RemoteRegion& region, uint64_t bytes, const Clock& clock, uint64_t reuse_ns);

  // For puts.
  uint64_t bytes() const { return ring_.bytes(); }
  std::optional<Segment> allocate(uint64_t bytes) { return ring_.allocate(bytes); }
  void release(uint64_t segment_id) { ring_.release(segment_id); }

  // Writes the sources one after the other, each at a multiple of 64 bytes from the segment's
  // start, then the immediate. kTimeout: not all of it by the deadline, and no other put notices.
  Written write(const Segment& segment, std::span<const Slice> sources, uint64_t deadline_ns);

  // Looks after the writes that are late, and waits until something has ended or until then. False:
  // another thread has the channel, and does the same.
  bool drive(uint64_t until_ns);

  // Hands a block to the log. If another thread has the channel, that one writes it; if many wait
  // already, it is dropped. Waits for nothing, locks nothing, allocates and frees nothing.
  void touched(TouchBlocks::Block block);

  // It takes nothing any more. A put that finds it so gives its view up. Wait-free.
  bool broken() const { return broken_.load(std::memory_order_acquire); }

 private:
  bool try_turn() { return !taken_.exchange(true); }
  bool take_turn(uint64_t deadline_ns);
  void let_go();
  void leave_turn();

  // These are for the holder of the turn.
  Status write_in_turn(Transfer& transfer, const Segment& segment, std::span<const Slice> sources);
  void post_writes(Transfer& transfer, const Segment& segment, std::span<const Slice> sources);
  bool post_touches();
  bool count_ended();
  bool release_ended();
  bool collect();
  void wait(uint64_t until_ns);
  void watch(uint64_t most_ns);
  void account(const Completion& completion);
  uint64_t hopeless_ns() const;
  void fail_with(Status why);
  void end();

  SegmentRing ring_;

  std::atomic<bool> taken_{false};    // the turn is taken
  std::atomic<uint32_t> waiting_{0};  // puts that wait for it
  std::mutex turn_mutex_;             // of those
  std::condition_variable turn_left_;
  std::atomic<bool> broken_{false};

  const Clock& clock_;
  const uint64_t reuse_ns_;
  const RemoteRegion region_;
  Status why_broken_;
  uint64_t heard_ns_ = 0;                             // when anything has ended last
  uint64_t polled_ns_ = 0;                            // when the channel was looked at last
  size_t begun_ = 0;                                  // of the sources that are being written
  uint64_t begun_bytes_ = 0;                          // of its segment
  std::vector<std::shared_ptr<Transfer>> transfers_;  // that have not ended, by their tags
  uint64_t next_tag_ = 1;                             // no tag is used twice
  TouchBlocks touches_;
  std::unique_ptr<Initiator> channel_;  // last: ends before what it reads from
};

}  // namespace farpage
