#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/mapping.h"
#include "base/status.h"
#include "tier/lane.h"
#include "tier/lane_counters.h"
#include "tier/operation_tag.h"
#include "tier/page_lookup.h"
#include "tier/page_request.h"
#include "tier/read_path.h"

namespace farpage {

// What the lane keeps of one fetch; recycled.
struct FetchState {
  std::span<const PageRequest> requests;
  std::span<PageVerdict> verdicts;
  uint64_t started_ns = 0;
  uint64_t deadline_ns = 0;
  size_t next = 0;     // the first request that has not been begun
  size_t pending = 0;  // without a verdict
  size_t held = 0;     // destinations whose operation has not ended
  bool in_use = false;
  CompletionCounter counter;
};

// Drives fetches through a window of attempts: each is one page on its way, with landing places of
// its own for header and buckets. An attempt is free again only when every operation of it has
// ended, so a page's destination never has two (protocol rule 4).
class LaneEngine {
 public:
  // Waits for the node to open the path.
  static Result<std::unique_ptr<LaneEngine>> create(const std::shared_ptr<NodeLink>& link);
  ~LaneEngine();

  FetchState* start(std::span<const PageRequest> requests, std::span<PageVerdict> verdicts,
                    uint64_t deadline_ns);
  void recycle(FetchState* fetch);
  // False: nothing moved, so that there is something to wait for.
  bool progress();
  void wait_done(FetchState* fetch);
  bool wait_released(FetchState* fetch, uint64_t deadline_ns);

  LaneStats stats() const { return counters_.stats(); }
  const std::byte* mapped_payload(const PageKey& key) const;

 private:
  static constexpr uint32_t kWindow = 128;
  static constexpr size_t kPollBatch = 64;

  struct Attempt {
    FetchState* fetch = nullptr;  // null: free
    uint32_t page = 0;
    uint32_t step = 0;        // counts the times that operations were queued for it
    uint8_t outstanding = 0;  // a bit for each of those that has not ended
    uint8_t failures = 0;     // operations that were refused
    bool broken = false;      // one of them did not end well
    bool held = false;        // its page has its verdict already
    bool waiting = false;     // for sweep() to begin it again
    uint64_t posted_ns = 0;
    uint32_t payload_crc = 0;
    PageLookup lookup;
  };

  // What the node's memory is read into, besides the destinations; registered.
  struct Landing {
    PageHeader headers[kWindow];
    Bucket buckets[kWindow][2];
  };

  LaneEngine(std::shared_ptr<NodeLink> link, Mapping memory, Region region);

  Landing& landing() const { return *reinterpret_cast<Landing*>(memory_.data()); }
  Slice landing_slice(const void* part, uint64_t bytes) const;

  bool turn();
  Result<void> open_path();
  void begin_pages();
  void begin(FetchState& fetch, uint32_t page);
  void look_up(uint32_t index);
  void queue_step(uint32_t index);
  size_t post_queued();
  void refuse(const Operation& operation);
  size_t poll_completions();
  void complete(const Completion& completion);
  void operation_ended(const OperationTag& tag);
  void attempt_ended(uint32_t index);
  void read_landed(uint32_t index);
  void settle_landed();
  void settle(Attempt& attempt, Verdict verdict, Reason reason);
  void settle_page(FetchState& fetch, uint32_t page, Verdict verdict, Reason reason,
                   Version version, uint8_t looks);
  void count_verdict(const FetchState& fetch, uint32_t page, Reason reason);
  void free_attempt(uint32_t index);

  // lane_deadlines.cc: whatever has to end, ends.
  void sweep();
  void begin_again();
  void drop_unreachable();
  void expire(FetchState& fetch);
  void end_path();
  void cancel_queued(const FetchState* fetch);
  bool overdue();
  uint64_t oldest_post_ns() const;
  uint64_t next_event_ns() const;
  template <typename Ready>
  void drive(uint64_t until_ns, const Ready& ready);

  std::shared_ptr<NodeLink> link_;
  const Clock& clock_;
  const bool verify_;
  const bool lands_with_crc_;
  Mapping memory_;
  Region region_;  // after memory_: its registration ends first
  std::array<Attempt, kWindow> attempts_;
  std::vector<uint32_t> free_attempts_;
  std::vector<Operation> queue_;  // to be posted, in order
  std::vector<uint32_t> landed_;  // attempts whose page is whole and waits for the clock
  std::vector<std::unique_ptr<FetchState>> fetches_;
  FetchState orphaned_;  // owns attempts that a fetch has left behind, and which write to the lane
                         // alone
  std::vector<FetchState*> active_;  // those with pages that are pending or held, oldest first
  uint32_t waiting_ = 0;             // attempts with that flag
  size_t window_ = 1;  // attempts at one time, so that their bytes can land well within L
  size_t poll_batch_ = 4;
  uint64_t now_ns_ = 0;    // as of the last look at the clock
  uint64_t since_ns_ = 0;  // nothing that is outstanding was posted before
  std::array<Completion, kPollBatch> polled_;
  LaneCounters counters_;
  ReadPath path_;  // last: destroyed first, while everything that it may write to still stands
};

}  // namespace farpage
