#include "net/runtime/blocking_jobs.h"

#include <algorithm>
#include <iterator>
#include <system_error>
#include <utility>

namespace farpage {

BlockingJobs::BlockingJobs(const JobThreads& most)
    : pools_{Pool(most.dial), Pool(most.connect), Pool(most.dispose)} {}

bool BlockingJobs::take(JobClass job, const std::function<void()>& work) {
  Pool& pool = pools_[static_cast<size_t>(job)];
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) return true;
    // Threads that have been woken may still count as idle, and their jobs as waiting.
    const bool wants_thread =
        pool.idle <= pool.waiting.size() && pool.threads.size() < pool.most_threads;
    if (wants_thread && !add_thread(pool) && pool.threads.empty()) return false;
    pool.waiting.push_back(work);
  }
  pool.changed.notify_one();
  return true;
}

bool BlockingJobs::add_thread(Pool& pool) {
  try {
    pool.threads.emplace_back([this, &pool] { serve(pool); });
    return true;
  } catch (const std::system_error&) {
    return false;
  }
}

void BlockingJobs::serve(Pool& pool) {
  std::unique_lock lock(mutex_);
  while (true) {
    ++pool.idle;
    pool.changed.wait(lock, [&] { return stopped_ || !pool.waiting.empty(); });
    --pool.idle;
    if (stopped_) return;
    std::function<void()> work = std::exchange(pool.waiting.front(), nullptr);
    pool.waiting.pop_front();
    lock.unlock();
    work();
    work = nullptr;  // what it holds may take a lock as it goes, this object's too
    lock.lock();
  }
}

void BlockingJobs::stop() {
  std::vector<std::thread> threads;
  std::vector<std::function<void()>> dropped;
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    for (Pool& pool : pools_) {
      std::ranges::move(pool.threads, std::back_inserter(threads));
      pool.threads.clear();
      std::ranges::move(pool.waiting, std::back_inserter(dropped));
      pool.waiting.clear();
    }
  }
  for (Pool& pool : pools_) pool.changed.notify_all();
  dropped.clear();
  for (std::thread& thread : threads) thread.join();
}

}  // namespace farpage
