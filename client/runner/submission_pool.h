#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "client/runner/runner_options.h"
#include "client/runner/spin.h"
#include "client/runner/submission.h"

namespace farpage {

// The submissions of one thread of the client's: those that are free, and those that are submitted
// and wait for that thread. Neither allocates nor locks. It outlives the thread while tickets are
// about.
class SubmissionPool {
 public:
  // Whoever waits, the thread for more to do or a caller for an end, looks for `spin_us` before it
  // sleeps: to wake a thread that sleeps costs more than to submit.
  explicit SubmissionPool(const RunnerOptions& options);

  // Any thread. Null: every one is in use.
  Submission* take();
  // Back from a ticket, once it is released, or unused.
  void give_back(Submission& submission);

  // How many are free, and how many are under way: not done. Any thread, as of a moment ago.
  struct Use {
    size_t free = 0;
    size_t under_way = 0;
  };
  Use use() const;

  // Any thread submits, and rings; one takes them, in the order of their coming.
  void submit(Submission& submission);
  Submission* next_submitted();

  // Wakes the thread if it sleeps. It sleeps while rings() is what it was before it last looked
  // for something to do.
  void ring();
  uint32_t rings() const { return rings_.load(); }
  void sleep(uint32_t seen) const;
  // The first part of it: looks for a while, and returns whether rings() has changed, or
  // `progress()` has moved something meanwhile.
  template <typename Progress>
  bool spin(uint32_t seen, const Progress& progress) const {
    return spin_until(spin_ns_, [&] { return rings_.load() != seen || progress(); });
  }

 private:
  // The head of the free list (Treiber 1986): a submission's number, and above it a count of the
  // changes, by which a thread that was held up between its look and its change finds out.
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr uint64_t head(uint64_t changes, uint32_t number) {
    return changes << 32 | number;
  }

  const uint64_t spin_ns_;
  std::vector<Submission> submissions_;
  std::vector<std::atomic<uint32_t>> next_free_;  // by number
  std::atomic<uint64_t> free_{kNone};
  std::atomic<Submission*> submitted_{nullptr};  // the newest first
  Submission* waiting_ = nullptr;                // the thread's, taken from there, the oldest first
  std::atomic<uint32_t> rings_{0};
};

}  // namespace farpage
