#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "base/runtime.h"

namespace farpage {

// How many threads each class of jobs has at most.
struct JobThreads {
  size_t dial = 32;
  size_t connect = 32;
  size_t dispose = 8;
};

// Threads for blocking jobs, apart for each class: however long the jobs of one class last, those
// of another begin at once. A class makes threads when it has jobs for them, up to its limit; the
// jobs beyond wait for one of them, in order. Thread-safe.
class BlockingJobs {
 public:
  explicit BlockingJobs(const JobThreads& most = {});
  ~BlockingJobs() { stop(); }

  // False: the class has no thread, and the system gives none now; `work` was not taken. While the
  // class has a thread, a job for which the system gives no other waits for that one.
  bool take(JobClass job, const std::function<void()>& work);

  // Waits for the jobs that have begun. The others, and those that come from now on, never run.
  void stop();

 private:
  struct Pool {
    explicit Pool(size_t most) : most_threads(most) {}

    const size_t most_threads;
    std::condition_variable changed;
    std::deque<std::function<void()>> waiting;
    std::vector<std::thread> threads;
    size_t idle = 0;
  };

  bool add_thread(Pool& pool);
  void serve(Pool& pool);

  std::mutex mutex_;                     // of what follows
  std::array<Pool, kJobClasses> pools_;  // by class
  bool stopped_ = false;
};

}  // namespace farpage
