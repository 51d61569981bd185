#include "net/runtime/worker_pool.h"

#include <system_error>
#include <utility>

namespace farpage {

bool WorkerPool::take(const std::function<void()>& work) {
  {
    std::lock_guard lock(mutex_);
    if (stopped_) return true;
    // Idle threads that have been woken may still count, and so may what they were woken for.
    const bool wants_thread = idle_ <= waiting_.size() && threads_.size() < most_threads_;
    if (wants_thread && !add_thread() && threads_.empty()) return false;
    waiting_.push_back(work);
  }
  changed_.notify_one();
  return true;
}

bool WorkerPool::add_thread() {
  try {
    threads_.emplace_back([this] { serve(); });
    return true;
  } catch (const std::system_error&) {
    return false;
  }
}

void WorkerPool::serve() {
  std::unique_lock lock(mutex_);
  while (true) {
    ++idle_;
    changed_.wait(lock, [this] { return stopped_ || !waiting_.empty(); });
    --idle_;
    if (stopped_) return;
    std::function<void()> work = std::exchange(waiting_.front(), nullptr);
    waiting_.pop_front();
    lock.unlock();
    work();
    work = nullptr;  // what goes with it may take a lock, and that of this pool too
    lock.lock();
  }
}

void WorkerPool::stop() {
  std::vector<std::thread> threads;
  std::deque<std::function<void()>> dropped;
  {
    std::lock_guard lock(mutex_);
    stopped_ = true;
    threads.swap(threads_);
    dropped.swap(waiting_);
  }
  changed_.notify_all();
  dropped.clear();
  for (std::thread& thread : threads) thread.join();
}

}  // namespace farpage
