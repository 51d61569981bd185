#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "transport/cuda/gpu_context.h"

namespace farpage::cuda {

// From pinned host memory to a device's address.
struct Copy {
  const std::byte* from = nullptr;
  uint64_t to = 0;
  uint64_t bytes = 0;
};

// Puts it behind the others, as a part of the last one where it goes on at both ends.
void add_copy(std::vector<Copy>& copies, const Copy& copy);

enum class BatchState : uint8_t {
  kUnderWay,
  kCopied,  // all of it lies on the device
  kFailed,  // some of it may lie there, and no more comes
};

// Copies of a device, on a stream of their own. A batch of them is started by number, of which
// there are a fixed count, and asked for its end; nothing waits. What was started cannot be called
// back: it ends when the device has come past it, or an error has ended the context.
//
// One thread, where the context is current; made and destroyed on any. Batches have ended before it
// goes.
class CopyQueue {
 public:
  static Result<CopyQueue> make(const std::shared_ptr<const GpuContext>& context, uint32_t batches);
  CopyQueue(CopyQueue&&) noexcept = default;
  CopyQueue& operator=(CopyQueue&&) = delete;
  ~CopyQueue();

  const GpuContext& context() const { return *context_; }

  // Of a batch that is not under way. Both memories stay until it has ended.
  void start(uint32_t batch, std::span<const Copy> copies);
  BatchState poll(uint32_t batch);
  // The context has ended: no batch is under way, and each further one fails at once.
  bool is_broken() const { return is_broken_; }
  // What the driver said last when it refused something; "" if it never has.
  const std::string& why() const { return why_; }

 private:
  struct Batch {
    Event event = nullptr;
    bool is_refused = false;   // some of its copies
    bool is_recorded = false;  // the event stands behind them
  };

  CopyQueue(std::shared_ptr<const GpuContext> context) : context_(std::move(context)) {}
  void record(Batch& batch);
  void note(int result, const char* call);

  std::shared_ptr<const GpuContext> context_;  // null: moved from
  Stream stream_ = nullptr;
  std::vector<Batch> batches_;
  bool is_broken_ = false;
  std::string why_;
};

}  // namespace farpage::cuda
