#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "transport/cuda/copies/copy_checks.h"
#include "transport/cuda/copies/page_scatter.h"
#include "transport/cuda/gpu_context.h"

namespace farpage::cuda {

// Between pinned host memory and a device's address; or between two of the device's, of which the
// source stands as `host`.
struct Copy {
  std::byte* host = nullptr;
  uint64_t device = 0;
  uint64_t bytes = 0;
};

enum class CopyTo : uint8_t {
  kDevice,
  kHost,
  kOnDevice,  // from there, too
};

enum class BatchState : uint8_t {
  kUnderWay,
  kCopied,  // all of it lies there, and its check has ended, if it has one
  kFailed,  // some of it may lie there, and no more comes
};

// Copies of a device, on two streams of their own (its engines copy both ways at once), or behind
// what is on another one. A batch of them is started by number, of which there are a fixed count,
// and asked for its end; nothing waits. The device may check what a batch has brought to it, which
// is a part of the batch then. What was started cannot be called back: it ends when the device has
// come past it, or an error has ended the context. Some errors leave that open (a handle that is
// refused, an unknown error): a context from which nothing else comes for kDoubtNs counts as ended.
//
// One thread; made and destroyed on any. Batches have ended before it goes.
class CopyQueue {
 public:
  static constexpr uint64_t kDoubtNs = cuda::kDoubtNs;

  static Result<CopyQueue> make(const std::shared_ptr<const GpuContext>& context, uint32_t batches);
  // From now on batches may have pages to check: at most so many each. `kernels`: of the context,
  // which are unloaded with the queue.
  Result<void> add_checks(const PageKernels& kernels, uint32_t most_pages);
  CopyQueue(CopyQueue&&) noexcept = default;
  CopyQueue& operator=(CopyQueue&&) = delete;
  ~CopyQueue();

  const std::shared_ptr<const GpuContext>& context() const { return context_; }

  // Makes the context current on this thread, if it is not yet. Nothing is started and no end is
  // seen before; false: the driver refuses it.
  bool take_thread();

  // Null: there are none.
  const CopyChecks* checks() const { return checks_.get(); }

  // A batch that is not under way: begin(), its copies, and one of both ends, with nothing else in
  // between. Both memories stay until the batch has ended.
  void begin(uint32_t batch, CopyTo to) { begin(batch, to, stream(to)); }
  // Behind what is on this other stream of the context.
  void begin(uint32_t batch, CopyTo to, Stream on);
  void add(const Copy& copy);  // as a part of the one before, where it goes on at both ends
  void add_apart(const Copy& copy);
  // `pages`: that the copies bring to the device, and that checks() looks at.
  void end(std::span<const CopiedPage> pages = {});
  // The copies bring pages to this slot, from which the device takes them further. False: that is
  // refused, and the batch fails.
  bool end(PageScatter& scatter, uint32_t slot);
  // All of that.
  void start(uint32_t batch, CopyTo to, std::span<const Copy> copies,
             std::span<const CopiedPage> pages = {});
  BatchState poll(uint32_t batch);
  // Of a batch with pages that is kCopied. False: the driver has refused the check, and why() says
  // so.
  bool is_checked(uint32_t batch) const { return batches_[batch].is_checked; }
  // Whether another event has passed: one of this context, on the same thread.
  bool has_passed(Event event);
  // Now and then while batches are under way, with the time.
  void look_at_doubts(uint64_t now_ns);
  // Whether this call of the driver in the context has; notes what it said, if it has not.
  bool succeeds(int result, const char* call);
  // Whether the last answer left it open if the context has ended.
  bool is_in_doubt() const { return is_in_doubt_; }
  // The context has ended: no batch is under way, and each further one fails at once.
  bool is_broken() const { return is_broken_; }
  // What the driver said last when it refused something; "" if it never has.
  const std::string& why() const { return why_; }

 private:
  static constexpr size_t kMostTogether = 64;  // copies that are given to the driver by one call

  struct Batch {
    Event event = nullptr;
    Stream stream = nullptr;   // on which it ends
    bool is_refused = false;   // some of its copies
    bool is_checked = false;   // its pages are
    bool is_recorded = false;  // the event stands behind them
  };

  CopyQueue(std::shared_ptr<const GpuContext> context) : context_(std::move(context)) {}
  Stream& stream(CopyTo to) { return streams_[to == CopyTo::kHost ? 1 : 0]; }
  void enqueue(std::span<const Copy> copies);
  int enqueue_one(const Copy& copy);
  int enqueue_together(std::span<const Copy> copies);
  void enqueue_added();
  bool check(std::span<const CopiedPage> pages);
  bool follow(KernelQueue& kernels, Stream copies);
  void record(Batch& batch);
  void note(int result, const char* call);

  std::shared_ptr<const GpuContext> context_;  // null: moved from
  std::array<Stream, 2> streams_ = {};         // to the device, and to the host
  std::vector<Batch> batches_;
  std::unique_ptr<CopyChecks> checks_;
  uint32_t begun_ = 0;  // the batch that is being put together; where to, and its next copies
  CopyTo to_ = CopyTo::kDevice;
  std::array<Copy, kMostTogether> added_;
  size_t added_count_ = 0;
  std::thread::id thread_;  // on which the context was made current last
  bool is_broken_ = false;
  bool is_in_doubt_ = false;  // by the last answer about a batch
  uint64_t doubted_ns_ = 0;   // since when there was no other answer; 0: not looked at
  std::string why_;
};

}  // namespace farpage::cuda
