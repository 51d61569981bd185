#include "client/runner/submission_pool.h"

namespace farpage {

SubmissionPool::SubmissionPool(size_t depth)
    : submissions_(depth), free_(depth), submitted_(depth) {
  for (Submission& submission : submissions_) free_.bounded_push(&submission);
}

Submission* SubmissionPool::take() {
  Submission* submission = nullptr;
  return free_.pop(submission) ? submission : nullptr;
}

void SubmissionPool::give_back(Submission& submission) {
  submission.reset();
  free_.bounded_push(&submission);
}

void SubmissionPool::submit(Submission& submission) {
  submitted_.bounded_push(&submission);
  ring();
}

void SubmissionPool::ring() {
  rings_.fetch_add(1);
  rings_.notify_one();
}

Submission* SubmissionPool::next_submitted() {
  Submission* submission = nullptr;
  return submitted_.pop(submission) ? submission : nullptr;
}

}  // namespace farpage
