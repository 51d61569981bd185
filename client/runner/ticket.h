#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/status.h"
#include "client/runner/submission.h"
#include "client/runner/submission_pool.h"

namespace farpage {

// An operation that was submitted. Move-only; one thread uses it at a time. It is *done* when every
// page has its verdict or result, which is by its deadline, and *released* when no memory that the
// caller has lent can be read or written for it any more, mostly at the same time. The destructor
// waits until it is released: at the latest `read_window` after the deadline, and of memory of a
// GPU once that has ended its copies. It may outlive the Farpage that it came from. A
// default-constructed one is done and released.
class Ticket {
 public:
  Ticket() = default;
  Ticket(std::shared_ptr<SubmissionPool> pool, Submission& submission);
  Ticket(Ticket&& other) noexcept;
  Ticket& operator=(Ticket&& other) noexcept;
  ~Ticket();

  bool done() const { return submission_ == nullptr || submission_->done(); }
  bool released() const { return submission_ == nullptr || submission_->released(); }
  // Blocks until it is done.
  void wait() const;
  // Until `deadline_ns` at the most, on the client's clock; return done() and released().
  bool wait_until(uint64_t deadline_ns) const;
  bool wait_released(uint64_t deadline_ns) const;

  // Once it is done, one for each page, in the order of the request. Theirs as long as the ticket.
  // A verdict's `place` may be read once it is released: until then the client's thread may write
  // it.
  std::span<const PageVerdict> verdicts() const;  // of fetch() and exists()
  std::span<const PutResult> results() const;     // of a put
  // Of a remove: how many of the keys had a page; kTimeout or kUnavailable: not acknowledged.
  Result<uint64_t> removed() const;
  // Of a flush: kTimeout, where it ended before what it waited for.
  Code code() const { return submission_ == nullptr ? Code::kOk : submission_->code; }
  // Of a put or a remove that was not acknowledged: which node was in the way, in a sentence.
  std::string why() const;

 private:
  void drop();

  std::shared_ptr<SubmissionPool> pool_;
  Submission* submission_ = nullptr;
};

}  // namespace farpage
