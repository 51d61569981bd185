#include "client/runner/submission_pool.h"

#include <utility>

namespace farpage {

SubmissionPool::SubmissionPool(const RunnerOptions& options)
    : spin_ns_(options.spin_us * kMicrosecond),
      submissions_(options.queue_depth),
      next_free_(options.queue_depth) {
  for (Submission& submission : submissions_) {
    submission.spin_ns = spin_ns_;
    give_back(submission);
  }
}

Submission* SubmissionPool::take() {
  uint64_t seen = free_.load(std::memory_order_acquire);
  while (true) {
    const auto number = static_cast<uint32_t>(seen);
    if (number == kNone) return nullptr;
    const uint32_t next = next_free_[number].load(std::memory_order_relaxed);
    if (free_.compare_exchange_weak(seen, head((seen >> 32) + 1, next), std::memory_order_acq_rel,
                                    std::memory_order_acquire)) {
      submissions_[number].take();
      return &submissions_[number];
    }
  }
}

SubmissionPool::Use SubmissionPool::use() const {
  Use use;
  for (const Submission& submission : submissions_) {
    if (submission.is_free()) {
      ++use.free;
    } else if (!submission.done()) {
      ++use.under_way;
    }
  }
  return use;
}

void SubmissionPool::give_back(Submission& submission) {
  submission.reset();
  const auto number = static_cast<uint32_t>(&submission - submissions_.data());
  uint64_t seen = free_.load(std::memory_order_relaxed);
  do {
    next_free_[number].store(static_cast<uint32_t>(seen), std::memory_order_relaxed);
  } while (!free_.compare_exchange_weak(seen, head((seen >> 32) + 1, number),
                                        std::memory_order_acq_rel, std::memory_order_relaxed));
}

void SubmissionPool::submit(Submission& submission) {
  submission.next = submitted_.load(std::memory_order_relaxed);
  while (!submitted_.compare_exchange_weak(submission.next, &submission, std::memory_order_release,
                                           std::memory_order_relaxed)) {
  }
  ring();
}

// All that were submitted are taken at once, so that none can go and come back meanwhile.
Submission* SubmissionPool::next_submitted() {
  if (waiting_ == nullptr) {
    Submission* newest = submitted_.exchange(nullptr, std::memory_order_acquire);
    while (newest != nullptr) {
      Submission* older = newest->next;
      newest->next = std::exchange(waiting_, newest);
      newest = older;
    }
  }
  if (waiting_ == nullptr) return nullptr;
  return std::exchange(waiting_, waiting_->next);
}

void SubmissionPool::sleep(uint32_t seen) const {
  if (!spin(seen, [] { return false; })) rings_.wait(seen);
}

void SubmissionPool::ring() {
  rings_.fetch_add(1);
  rings_.notify_one();
}

}  // namespace farpage
