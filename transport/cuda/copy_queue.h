#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "transport/cuda/gpu_context.h"

namespace farpage::cuda {

// Between pinned host memory and a device's address.
struct Copy {
  std::byte* host = nullptr;
  uint64_t device = 0;
  uint64_t bytes = 0;
};

enum class CopyTo : uint8_t { kDevice, kHost };

// Puts it behind the others, as a part of the last one where it goes on at both ends.
void add_copy(std::vector<Copy>& copies, const Copy& copy);

enum class BatchState : uint8_t {
  kUnderWay,
  kCopied,  // all of it lies there
  kFailed,  // some of it may lie there, and no more comes
};

// Copies of a device, on two streams of their own: its engines copy both ways at once. A batch of
// them is started by number, of which there are a fixed count, and asked for its end; nothing
// waits. What was started cannot be called back: it ends when the device has come past it, or an
// error has ended the context. Some errors leave that open (a handle that is refused, an unknown
// error). A context from which nothing else comes for kDoubtNs counts as ended: otherwise nothing
// would end a wait for its batches.
//
// One thread; made and destroyed on any. Batches have ended before it goes.
class CopyQueue {
 public:
  static constexpr uint64_t kDoubtNs = kSecond;

  static Result<CopyQueue> make(const std::shared_ptr<const GpuContext>& context, uint32_t batches);
  CopyQueue(CopyQueue&&) noexcept = default;
  CopyQueue& operator=(CopyQueue&&) = delete;
  ~CopyQueue();

  const std::shared_ptr<const GpuContext>& context() const { return context_; }

  // Makes the context current on this thread, if it is not yet. Nothing is started and no end is
  // seen before; false: the driver refuses it.
  bool take_thread();

  // Of a batch that is not under way. Both memories stay until it has ended.
  void start(uint32_t batch, CopyTo to, std::span<const Copy> copies);
  BatchState poll(uint32_t batch);
  // Whether another event has passed: one of this context, on the same thread.
  bool has_passed(Event event);
  // Now and then while batches are under way, with the time.
  void look_at_doubts(uint64_t now_ns);
  // The context has ended: no batch is under way, and each further one fails at once.
  bool is_broken() const { return is_broken_; }
  // What the driver said last when it refused something; "" if it never has.
  const std::string& why() const { return why_; }

 private:
  struct Batch {
    Event event = nullptr;
    CopyTo to = CopyTo::kDevice;
    bool is_refused = false;   // some of its copies
    bool is_recorded = false;  // the event stands behind them
  };

  CopyQueue(std::shared_ptr<const GpuContext> context) : context_(std::move(context)) {}
  Stream& stream(CopyTo to) { return streams_[static_cast<size_t>(to)]; }
  int enqueue(CopyTo to, const Copy& copy);
  void record(Batch& batch);
  bool succeeds(int result, const char* call);
  void note(int result, const char* call);

  std::shared_ptr<const GpuContext> context_;  // null: moved from
  std::array<Stream, 2> streams_ = {};         // by where they copy to
  std::vector<Batch> batches_;
  bool has_thread_ = false;
  bool is_broken_ = false;
  bool is_in_doubt_ = false;  // by the last answer about a batch
  uint64_t doubted_ns_ = 0;   // since when there was no other answer; 0: not looked at
  std::string why_;
};

}  // namespace farpage::cuda
