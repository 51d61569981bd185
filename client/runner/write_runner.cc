#include "client/runner/write_runner.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/clock.h"

namespace farpage {
namespace {

// Nothing tells of the end of a late write.
constexpr uint64_t kLateLookNs = kMillisecond;

}  // namespace

WriteRunner::WriteRunner(Client& client, Runtime& runtime, size_t depth)
    : client_(client), runtime_(runtime), pool_(std::make_shared<SubmissionPool>(depth)) {
  active_.reserve(depth);
  thread_ = std::thread([this] { run(); });
}

WriteRunner::~WriteRunner() {
  is_ending_.store(true);
  pool_->ring();
  runtime_.notify();
  thread_.join();
}

void WriteRunner::submit(Submission& submission) {
  pool_->submit(submission);
  runtime_.notify();
}

void WriteRunner::run() {
  while (true) {
    const uint32_t seen = pool_->rings();
    while (Submission* submission = pool_->next_submitted()) begin(*submission);
    end_active();
    if (active_.empty() && is_ending_.load()) return;
    if (active_.empty()) {
      pool_->sleep(seen);
      continue;
    }
    uint64_t until_ns = kNever;
    for (const Active& active : active_) {
      until_ns = std::min(until_ns, active.is_told ? runtime_.clock().now_ns() + kLateLookNs
                                                   : active.submission->deadline_ns);
    }
    runtime_.wait_until(until_ns, [&] {
      return pool_->rings() != seen || std::ranges::any_of(active_, [](const Active& active) {
               return !active.is_told && active.is_answered();
             });
    });
  }
}

void WriteRunner::begin(Submission& submission) {
  Active active;
  active.submission = &submission;
  if (submission.kind == SubmissionKind::kPut) {
    active.put.emplace(client_.put(submission.puts, submission.deadline_ns));
  } else if (submission.kind == SubmissionKind::kRemove) {
    active.remove.emplace(client_.remove(submission.keys, submission.deadline_ns));
  }
  active_.push_back(std::move(active));
}

void WriteRunner::end_active() {
  const uint64_t now = runtime_.clock().now_ns();
  bool are_told = true;  // all before
  for (Active& active : active_) {
    const bool is_due = now >= active.submission->deadline_ns;
    const bool is_answered = active.is_flush() ? are_told : active.is_answered();
    if (!active.is_told && active.is_flush() && !is_answered && is_due) {
      active.submission->code = Code::kTimeout;
    }
    if (!active.is_told && (is_due || is_answered)) tell(active);
    are_told &= active.is_told;
  }
  std::erase_if(active_, [](Active& active) {
    if (!active.is_told || !active.is_released()) return false;
    active.put.reset();
    active.submission->release();
    return true;
  });
}

// What waits inside has nothing to wait for.
void WriteRunner::tell(Active& active) {
  Submission& submission = *active.submission;
  if (active.put) {
    const std::span<const PutResult> results = active.put->wait();
    submission.results.assign(results.begin(), results.end());
    submission.why = active.put->why();
  } else if (active.remove) {
    const Result<uint64_t> removed = active.remove->wait();
    submission.removed = removed.value_or(0);
    if (!removed) {
      submission.code = removed.error().code;
      submission.why = removed.error().message;
    }
  }
  active.is_told = true;
  submission.finish();
}

}  // namespace farpage
