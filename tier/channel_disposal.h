#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "base/mapping.h"
#include "base/runtime.h"
#include "transport/fabric.h"

namespace farpage {

// Ends a path's channels on a thread that may block: a device flushes its queues as fast as it
// likes, and no fetch waits for that. Until ended() is true, an operation of these channels may
// still land.
//
// Thread-safe. Shared by the path and the job that carries it out.
class ChannelDisposal {
 public:
  // What goes, in the order of teardown; `memory` is what `touches` reads from.
  struct Parts {
    Mapping memory;
    Region region;  // after its memory: its registration ends first
    std::unique_ptr<Initiator> touches;
    std::unique_ptr<Initiator> reads;
    std::unique_ptr<Target> pushes;  // of a push lane, which has nothing else
  };

  // Hands the parts to a thread of the runtime, and returns at once.
  static std::shared_ptr<ChannelDisposal> begin(Runtime& runtime, Parts parts) {
    auto disposal = std::make_shared<ChannelDisposal>(std::move(parts));
    runtime.offload(JobClass::kDispose, [disposal, &runtime] {
      disposal->finish();
      runtime.notify();
    });
    return disposal;
  }

  explicit ChannelDisposal(Parts parts) : parts_(std::move(parts)) {}

  // Once true, nothing of the channels touches memory of this process. Wait-free.
  bool ended() const { return ended_.load(std::memory_order_acquire); }

  // Ends them in this thread, or waits for the thread that does. For destructors.
  void finish() {
    const std::lock_guard lock(mutex_);
    if (ended()) return;
    { const Parts ending = std::move(parts_); }
    ended_.store(true, std::memory_order_release);
  }

 private:
  std::mutex mutex_;
  Parts parts_;
  std::atomic<bool> ended_{false};
};

}  // namespace farpage
