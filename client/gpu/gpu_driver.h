#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "client/gpu/gpu_options.h"
#include "client/gpu/portion.h"
#include "client/runner/fetch_runner.h"
#include "tier/client.h"
#include "tier/stats/lane_counters.h"
#include "transport/cuda/copy_queue.h"
#include "transport/cuda/pinned_memory.h"

namespace farpage {

// Fetches into memory of one GPU, over a lane. A page lands in bounce memory, pinned memory of the
// host, where the lane checks it as any other; a page that is good is then copied to its
// destination, while others are under way, and is `ready` once the copy has ended. The destination
// of any other page is not touched, except by copies of a batch that failed, or by one that was
// under way at the deadline: such a page is recompute(stalled), and held until that copy has ended.
//
// A fetch goes through in portions of a block each. One that finds no block free waits for one; its
// pages are recompute(stalled) when the deadline comes first.
class GpuDriver {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  // Its portions are a list by the numbers of their blocks.
  struct Operation {
    uint32_t pages = 0;
    uint32_t begun = 0;    // pages that have had their portion, or need none any more
    uint32_t decided = 0;  // pages that have their verdict
    uint32_t portions = kNone;
    uint64_t since_ns = 0;
    bool is_hungry = false;      // without a portion, and with pages to begin
    uint64_t hungry_number = 0;  // counts up, as they become so

    bool done() const { return decided == pages; }
    bool released() const { return done() && portions == kNone; }
  };

  // With bounce memory and a lane of its own. `context`: of the GPU.
  static Result<GpuDriver> open(Client& client,
                                const std::shared_ptr<const cuda::GpuContext>& context,
                                const GpuOptions& options);

  std::optional<Operation> begin(Submission& submission, const std::function<void()>& give_a_turn);
  bool go_on(Operation& operation, Submission& submission);
  void finish(Submission& submission);
  bool progress();
  void wait(uint64_t until_ns);
  void wait_idle(const SubmissionPool& pool, uint32_t rings);
  void interrupt() { lane_.interrupt(); }

  // Its GPU is lost to this client, as of a moment ago; any thread.
  bool is_broken() const { return is_broken_->load(std::memory_order_relaxed); }
  // Of fetches so far, as of a moment ago; any thread.
  VerdictCounts verdicts() const { return counters_->verdicts(); }

 private:
  // One step of a fetch.
  struct Turn {
    Operation& operation;
    Submission& submission;
    uint64_t now_ns = 0;
    bool has_moved = false;

    bool is_late() const { return now_ns >= submission.deadline_ns; }
  };

  GpuDriver(cuda::PinnedMemory bounce, Region region, cuda::CopyQueue copies, Lane lane,
            const Clock& clock, uint64_t block_bytes);

  bool may_take(const Operation& operation) const;
  void begin_portions(Turn& turn);
  void begin_portion(Turn& turn);
  void end_copies(Turn& turn, Portion& portion);
  void take_landed(Turn& turn, Portion& portion, uint32_t block);
  void warn_of_failure();
  void look_at_stall(uint64_t now_ns);
  void decide_late(Turn& turn, Portion& portion);
  void recompute(Turn& turn, uint32_t page, Reason reason, Place place = Place::kReleased);
  void decide(Turn& turn, uint32_t page, const PageVerdict& verdict);

  cuda::PinnedMemory bounce_;
  Region region_;  // of it
  cuda::CopyQueue copies_;
  Lane lane_;  // goes before the bounce memory, to which it may write
  const Clock* clock_;
  uint64_t block_bytes_;
  std::vector<Portion> portions_;  // one for each block; their fetches go before the lane
  std::vector<uint32_t> free_;     // blocks
  std::vector<uint32_t> let_go_;   // blocks whose fetch is over, and to which the lane may write
  std::vector<cuda::Copy> batch_;  // that is about to be started
  uint32_t hungry_ = 0;            // fetches; their numbers:
  uint64_t hungry_count_ = 0;
  uint64_t first_hungry_ = UINT64_MAX;  // the least of the last turn's
  uint64_t next_hungry_ = UINT64_MAX;   // ... and of this one's
  uint32_t copying_ = 0;                // portions
  uint64_t due_ns_ = kNever;            // the first deadline of fetches that are not done
  bool is_awaited_ = false;             // there are such
  uint64_t started_ns_ = 0;             // when copies were started last
  bool can_copy_ = false;               // by the last turn
  WarningLimiter failures_;
  WarningLimiter stalls_{10 * kSecond};
  std::unique_ptr<std::atomic<bool>> is_broken_ = std::make_unique<std::atomic<bool>>(false);
  std::unique_ptr<LaneCounters> counters_ = std::make_unique<LaneCounters>();
};

using GpuRunner = FetchRunner<GpuDriver>;

}  // namespace farpage
