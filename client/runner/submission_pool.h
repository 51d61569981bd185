#pragma once

#include <atomic>
#include <boost/lockfree/queue.hpp>
#include <boost/lockfree/stack.hpp>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "client/runner/submission.h"

namespace farpage {

// The operations of one thread of the client's: those that are free, and those that are submitted
// and wait for that thread. Neither allocates nor locks. It outlives the thread while tickets are
// about.
class SubmissionPool {
 public:
  explicit SubmissionPool(size_t depth);

  // Any thread. Null: every operation is under way.
  Submission* take();
  // Back from a ticket, once it is released, or unused.
  void give_back(Submission& submission);

  // Any thread submits, and rings; one takes.
  void submit(Submission& submission);
  Submission* next_submitted();

  // Wakes the thread if it sleeps. It sleeps while rings() is what it was before it last looked
  // for something to do.
  void ring();
  uint32_t rings() const { return rings_.load(); }
  void sleep(uint32_t seen) const { rings_.wait(seen); }

 private:
  std::vector<Submission> submissions_;
  boost::lockfree::stack<Submission*> free_;
  boost::lockfree::queue<Submission*> submitted_;  // has room for all
  std::atomic<uint32_t> rings_{0};
};

}  // namespace farpage
