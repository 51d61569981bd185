#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "base/runtime.h"
#include "transport/fabric.h"

namespace farpage {

// Ends a path's channel on a thread that may block: a device flushes its queues as fast as it
// likes, and no fetch waits for that. Until ended() is true, an operation of this channel may still
// land.
//
// Thread-safe. Shared by the path and the job that carries it out.
class ChannelDisposal {
 public:
  struct Parts {
    std::unique_ptr<Initiator> reads;
    std::unique_ptr<Target> pushes;  // of a push lane
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

  // Once true, nothing of the channel touches memory of this process. Wait-free.
  bool ended() const { return ended_.load(std::memory_order_acquire); }

  // Ends it in this thread, or waits for the thread that does. For destructors.
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
