#pragma once

#include <array>
#include <cstddef>
#include <functional>

#include "base/runtime.h"
#include "net/runtime/worker_pool.h"

namespace farpage {

// Threads for blocking work, apart for each class: however long the work of one class lasts, that
// of another begins at once. Threads are made when there is work for them. Thread-safe.
class BlockingJobs {
 public:
  // At most, of each class.
  static constexpr size_t kDialThreads = 32;
  static constexpr size_t kConnectThreads = 32;
  static constexpr size_t kDisposeThreads = 8;

  // False: the class has no thread, and the system gives none now; `work` was not taken.
  bool take(JobClass job, const std::function<void()>& work);

  // Waits for the work that has begun. The rest never runs.
  void stop();

 private:
  std::array<WorkerPool, kJobClasses> pools_{WorkerPool(kDialThreads), WorkerPool(kConnectThreads),
                                             WorkerPool(kDisposeThreads)};  // by class
};

}  // namespace farpage
