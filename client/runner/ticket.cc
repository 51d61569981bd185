#include "client/runner/ticket.h"

#include <utility>

#include "base/clock.h"

namespace farpage {

Ticket::Ticket(std::shared_ptr<SubmissionPool> pool, Submission& submission)
    : pool_(std::move(pool)), submission_(&submission) {}

Ticket::Ticket(Ticket&& other) noexcept
    : pool_(std::move(other.pool_)), submission_(std::exchange(other.submission_, nullptr)) {}

Ticket& Ticket::operator=(Ticket&& other) noexcept {
  if (this != &other) {
    drop();
    pool_ = std::move(other.pool_);
    submission_ = std::exchange(other.submission_, nullptr);
  }
  return *this;
}

Ticket::~Ticket() {
  drop();
}

void Ticket::drop() {
  if (submission_ == nullptr) return;
  submission_->wait_released(kNever);
  pool_->give_back(*std::exchange(submission_, nullptr));
}

void Ticket::wait() const {
  if (submission_ != nullptr) submission_->wait_done(kNever);
}
bool Ticket::wait_until(uint64_t deadline_ns) const {
  return submission_ == nullptr || submission_->wait_done(deadline_ns);
}
bool Ticket::wait_released(uint64_t deadline_ns) const {
  return submission_ == nullptr || submission_->wait_released(deadline_ns);
}

std::span<const PageVerdict> Ticket::verdicts() const {
  if (submission_ == nullptr) return {};
  return submission_->verdicts;
}
std::span<const PutResult> Ticket::results() const {
  if (submission_ == nullptr) return {};
  return submission_->results;
}
Result<uint64_t> Ticket::removed() const {
  if (submission_ == nullptr) return uint64_t{0};
  if (submission_->code != Code::kOk) return fail(submission_->code, submission_->why);
  return submission_->removed;
}
std::string Ticket::why() const {
  return submission_ == nullptr ? "" : submission_->why;
}

}  // namespace farpage
