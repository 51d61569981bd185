#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "base/log.h"
#include "base/memory/mapping.h"
#include "tier/fetch/page_copier.h"
#include "transport/cuda/memory/registered_memory.h"

namespace farpage {

// Registers nodes' pools with CUDA, and ends that again, on a thread of its own: it lasts, 39 ms
// for 512 MiB on an H100. A pool that the driver does not take is told in the log, and never ready.
class PoolRegistrar {
 public:
  explicit PoolRegistrar(std::shared_ptr<const cuda::GpuContext> context);
  // Returns once nothing is registered. What add() gave has gone before.
  ~PoolRegistrar();
  PoolRegistrar(const PoolRegistrar&) = delete;
  PoolRegistrar& operator=(const PoolRegistrar&) = delete;

  // The last of these to go ends the registration, soon; any thread.
  std::shared_ptr<CopySource> add(std::shared_ptr<const Mapping> pool);

 private:
  struct Pool : CopySource {
    using CopySource::CopySource;
    std::optional<cuda::RegisteredMemory> registered;
  };
  struct Job {
    Pool* pool = nullptr;
    bool is_end = false;  // otherwise its beginning
  };

  void order(Job job);
  void work();
  void begin(Pool& pool);

  const std::shared_ptr<const cuda::GpuContext> context_;
  WarningLimiter warnings_;
  std::mutex mutex_;  // of what follows
  std::condition_variable ordered_;
  std::deque<Job> jobs_;
  bool is_ending_ = false;
  std::thread thread_;  // last
};

}  // namespace farpage
