#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace farpage {

// Threads for work that blocks. Each work has one of its own, up to a limit; what is beyond waits
// for one of them, in order. Thread-safe.
class WorkerPool {
 public:
  static constexpr size_t kMostThreads = 64;

  explicit WorkerPool(size_t most_threads = kMostThreads) : most_threads_(most_threads) {}
  ~WorkerPool() { stop(); }

  // False: there is no thread, and the system gives none now; `work` was not taken. While there is
  // one, work for which the system gives no other waits for it.
  bool take(const std::function<void()>& work);

  // Waits for what has begun. Work that has not, and later work, never runs.
  void stop();

 private:
  void serve();
  bool add_thread();

  const size_t most_threads_;
  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
  std::vector<std::thread> threads_;
  size_t idle_ = 0;
  bool stopped_ = false;
};

}  // namespace farpage
