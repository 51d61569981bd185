#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "client/gpu/blocks.h"
#include "client/gpu/gpu_landing.h"
#include "client/gpu/gpu_options.h"
#include "client/gpu/last_hop.h"
#include "client/gpu/paged_region.h"
#include "client/gpu/portion.h"
#include "client/gpu/straight_copies.h"
#include "client/runner/fetch_runner.h"
#include "client/runner/write_runner.h"
#include "tier/client.h"
#include "tier/stats/lane_counters.h"
#include "transport/cuda/copies/copy_queue.h"
#include "transport/cuda/memory/pinned_memory.h"

namespace farpage {

// Fetches into memory of one GPU, over a lane, and puts from there.
//
// A page of a fetch lands in memory of the GPU (GpuLanding), where the lane has the GPU check it,
// or in bounce memory, pinned memory of the host, where the lane checks it as any other; a page
// that is good is then copied to its destination, while others are under way, and is `ready` once
// the copy has ended. The destination of any other page is not touched, except by copies of a batch
// that failed, by one that spoiled the page, or by one that was under way at the deadline: such a
// page is recompute(stalled), and held until that copy has ended.
//
// The device checks each page behind its copy, but for fetches with a fence, and others meanwhile:
// work that waits at the fence may have all of the processors that the check needs. For the same
// reason these have their pages land in bounce memory.
//
// A page of a put is copied into bounce memory once the work has ended that the caller's stream
// had, and put from there, as any other, once the copy has ended. The driver is asked for the end
// of that work: a copy that waited on the device would have a block meanwhile, and others behind
// it. If the deadline comes first, it is not put, and its source is held until the copy has
// ended.
//
// A page that is long enough, of a node on this host, may be copied straight from the node's
// memory: the lane says which have been.
//
// Pages of paged memory (PagedRegion) are copied to memory of the device first, and a kernel takes
// those that it finds good to their blocks. Of a page that is put a kernel brings the pieces to
// such memory, and a copy goes on from there. Where a kernel may not, copies take the pieces.
//
// An operation goes through in portions of a block each. One that finds no block free waits for
// one; its pages are recompute(stalled), or not put, when the deadline comes first. Puts have
// blocks of their own: a node that hangs keeps none from fetches.
class GpuDriver {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  // Its portions are a list by the numbers of their blocks. A flush has one page, which is decided
  // once the puts before it are done.
  struct Operation {
    uint32_t pages = 0;
    uint32_t begun = 0;    // pages that have had their portion, or need none any more
    uint32_t decided = 0;  // pages that have their verdict or result
    uint32_t portions = kNone;
    uint64_t since_ns = 0;
    Blocks::Hunger hunger;
    bool may_begin = true;         // no stream is in the way
    uint64_t put_number = 0;       // of a put; of a flush, of the last put before it
    PagedRegion* paged = nullptr;  // that all of its pages are blocks of; null: of none
    bool lands_on_gpu = false;     // a fetch's next portion does

    bool done() const { return decided == pages; }
    bool released() const { return done() && portions == kNone; }
  };

  // With bounce memory and a lane of its own. `context`: of the GPU. `client` and `writes`, which
  // puts what lies in the bounce memory, outlive it.
  static Result<GpuDriver> open(Client& client, WriteRunner& writes,
                                const std::shared_ptr<const cuda::GpuContext>& context,
                                const GpuOptions& options);

  std::optional<Operation> begin(Submission& submission, const std::function<void()>& give_a_turn);
  bool go_on(Operation& operation, Submission& submission);
  void finish(Submission& submission);
  bool progress();
  void wait(uint64_t until_ns);
  void wait_idle(const SubmissionPool& pool, uint32_t rings);
  // Nothing that has ended for its caller uses a block any more.
  bool is_at_rest() const { return let_go_.empty(); }
  void interrupt() { lane_.interrupt(); }

  const std::shared_ptr<const cuda::GpuContext>& context() const { return copies_->context(); }
  // Its GPU is lost to this client, as of a moment ago; any thread.
  bool is_broken() const { return is_broken_->load(std::memory_order_relaxed); }
  // Of fetches so far, as of a moment ago; any thread.
  VerdictCounts verdicts() const { return counters_->verdicts(); }

 private:
  // One step of an operation.
  struct Turn {
    Operation& operation;
    Submission& submission;
    uint64_t now_ns = 0;
    bool has_moved = false;

    bool is_put() const { return submission.kind == SubmissionKind::kPut; }
    bool is_late() const { return now_ns >= submission.deadline_ns; }
    const Slice& on_gpu(uint32_t page) const {
      return is_put() ? submission.puts[page].source : submission.requests[page].destination;
    }
  };
  // Why a page does not come through.
  enum class Loss : uint8_t {
    kStream,   // has not come so far in time
    kNoBlock,  // in time
    kLate,
    kGpu,
    kSpoiled,  // by its copy, or on its way to or from its block
    kTooLong,
  };

  // Blocks by number: those of fetches in bounce memory, then those on the GPU, then those of puts.
  struct BlockCounts {
    uint32_t landing = 0;
    uint32_t on_gpu = 0;
    uint32_t leaving = 0;
    uint32_t all() const { return landing + on_gpu + leaving; }
  };

  GpuDriver(Client& client, WriteRunner& writes, cuda::PinnedMemory bounce, Region region,
            std::unique_ptr<GpuLanding> on_gpu, cuda::CopyQueue copies, Lane lane,
            uint64_t block_bytes, const BlockCounts& counts);
  void copy_straight(uint64_t from_bytes);

  // gpu_driver.cc: of both.
  Blocks& blocks_of(const Turn& turn) {
    if (turn.is_put()) return leaving_;
    return turn.operation.lands_on_gpu ? on_gpu_ : landing_;
  }
  Blocks& blocks_with(uint32_t block);
  bool is_on_gpu(uint32_t block) const {
    return block >= counts_.landing && block - counts_.landing < counts_.on_gpu;
  }
  bool is_of_put(uint32_t block) const { return block >= counts_.landing + counts_.on_gpu; }
  Slice in_block(uint32_t block, uint64_t offset, uint64_t bytes) const;
  void look_at_landing();
  void choose_landing(Turn& turn);
  void begin_portions(Turn& turn);
  void begin_portion(Turn& turn);
  void add_copies(const Turn& turn, const Slice& in_block, const Slice& on_gpu);
  void count_copies(Turn& turn, Portion& portion);
  void end_copies(Turn& turn, Portion& portion, uint32_t block);
  void decide_late(Turn& turn, Portion& portion);
  void lose(Turn& turn, uint32_t page, Loss loss, Place place = Place::kReleased);
  void warn_of_failure();
  void look_at_stall(uint64_t now_ns);
  // When the copies that are under way were started last; 0: there are none.
  uint64_t copying_since_ns() const {
    const bool is_straight = straight_ != nullptr && straight_->are_under_way();
    return std::max(copying_ > 0 ? started_ns_ : 0, is_straight ? straight_->started_ns() : 0);
  }
  // gpu_fetches.cc
  void take_landed(Turn& turn, Portion& portion, uint32_t block);
  bool may_go_straight(const Portion& portion, uint32_t i) const;
  bool begin_copies_to_gpu(Turn& turn, Portion& portion, uint32_t block);
  uint64_t stage(const Portion& portion, const Slice& landed, uint32_t block);
  void add_page(Turn& turn, Portion& portion, uint32_t i, uint32_t block);
  void start_copies_to_gpu(Turn& turn, Portion& portion);
  void take_held(Turn& turn, Portion& portion, uint32_t i);
  void end_copies_to_gpu(Turn& turn, Portion& portion, uint32_t block);
  bool may_check() const { return copies_->checks() != nullptr && fenced_ == 0; }
  bool is_right(const Turn& turn, const Portion& portion, uint32_t i, uint32_t block,
                uint32_t& checked);
  void tell_of_last_hop();
  void lose_fetched(Turn& turn, uint32_t page, Loss loss, Place place);
  void decide(Turn& turn, uint32_t page, const PageVerdict& verdict);
  // gpu_puts.cc
  bool may_begin_put(const Submission& submission);
  bool go_on_flush(Operation& operation, Submission& submission);
  void begin_copies_from_gpu(Turn& turn, Portion& portion, uint32_t block);
  bool start_gather(Turn& turn, Portion& portion, uint32_t block);
  void end_copies_from_gpu(Turn& turn, Portion& portion);
  void warn_of_spoiled_work();
  void put_from_block(Turn& turn, Portion& portion);
  void take_results(Turn& turn, Portion& portion);
  void lose_put(Turn& turn, uint32_t page, Loss loss);

  Client* client_;
  WriteRunner* writes_;
  cuda::PinnedMemory bounce_;
  Region region_;                            // of it
  std::unique_ptr<GpuLanding> gpu_landing_;  // null: pages land in bounce memory only
  uint64_t refusals_ = 0;                    // of its checks, that were seen
  std::unique_ptr<cuda::CopyQueue> copies_;
  std::unique_ptr<LastHop> last_hop_ = std::make_unique<LastHop>();
  LastHop::Counts last_hop_told_;
  uint32_t fenced_ = 0;                       // fetches with a fence that are not done
  std::unique_ptr<StraightCopies> straight_;  // null: pages of nodes here are too short for it
  uint64_t straight_bytes_ = kNever;          // of the shortest page that may go straight
  Lane lane_;  // goes before the memory to which it may write, and before what copies for it
  const Clock* clock_;
  uint64_t block_bytes_;
  std::vector<Portion> portions_;  // one for each block; their fetches go before the lane
  const BlockCounts counts_;
  Blocks landing_;
  Blocks on_gpu_;
  Blocks leaving_;
  std::shared_ptr<SubmissionPool> puts_;  // one for each block of these
  std::vector<uint32_t> let_go_;          // blocks that the lane, or a put, may still use
  std::vector<cuda::CopiedPage> checks_;  // of the batch that is about to be started
  uint64_t put_count_ = 0;
  std::vector<uint64_t> open_puts_;  // numbers of those that are not done, rising
  uint32_t copying_ = 0;             // portions
  uint64_t due_ns_ = kNever;         // the first deadline of operations that are not done
  bool is_awaited_ = false;          // there are such
  uint64_t started_ns_ = 0;          // when copies were started last
  bool can_copy_ = false;            // by the last turn
  bool awaits_streams_ = false;      // some put does
  WarningLimiter failures_;
  WarningLimiter spoils_;
  WarningLimiter stalls_{10 * kSecond};
  std::unique_ptr<std::atomic<bool>> is_broken_ = std::make_unique<std::atomic<bool>>(false);
  std::unique_ptr<LaneCounters> counters_ = std::make_unique<LaneCounters>();
};

using GpuRunner = FetchRunner<GpuDriver>;

}  // namespace farpage
