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

WriteRunner::WriteRunner(Client& client, const RunnerOptions& options)
    : client_(client),
      runtime_(client.runtime()),
      pool_(std::make_shared<SubmissionPool>(options)) {
  active_.reserve(options.queue_depth);
  writer_ = std::thread([this] { write_all(); });
  try {
    teller_ = std::thread([this] { tell_all(); });
  } catch (...) {
    end_writer();
    throw;
  }
}

WriteRunner::~WriteRunner() {
  is_ending_.store(true);
  pool_->ring();
  runtime_.notify();
  teller_.join();
  end_writer();
}

void WriteRunner::end_writer() {
  {
    const std::lock_guard lock(mutex_);
    writer_ends_ = true;
  }
  handed_.notify_one();
  writer_.join();
}

std::shared_ptr<SubmissionPool> WriteRunner::make_pool(const RunnerOptions& options) {
  const std::lock_guard lock(mutex_);
  return pools_.emplace_back(std::make_shared<SubmissionPool>(options));
}

void WriteRunner::submit(Submission& submission) {
  pool_->submit(submission);
  runtime_.notify();
}

void WriteRunner::write_all() {
  std::unique_lock lock(mutex_);
  while (true) {
    handed_.wait(lock, [this] { return writer_ends_ || !to_write_.empty(); });
    if (to_write_.empty()) return;
    const ToWrite next = std::move(to_write_.front());
    to_write_.pop_front();
    if (!next.writing->take()) continue;
    lock.unlock();
    Submission& submission = *next.submission;
    next.writing->put.emplace(client_.put(submission.puts, submission.deadline_ns));
    std::string why = next.writing->put->why();
    next.writing->is_written.store(true);
    pool_->ring();
    runtime_.notify();
    lock.lock();
    in_the_way_ = std::move(why);
  }
}

void WriteRunner::tell_all() {
  while (true) {
    const uint32_t seen = pool_->rings();
    const bool is_ending = is_ending_.load();  // what was submitted before is in the queue
    while (Submission* submission = pool_->next_submitted()) begin(*submission);
    end_active();
    if (active_.empty() && is_ending) return;
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
  if (submission.kind == SubmissionKind::kRemove) {
    active.remove.emplace(client_.remove(submission.keys, submission.deadline_ns));
  } else if (submission.kind == SubmissionKind::kPut) {
    active.writing = std::make_shared<Writing>();
    {
      const std::lock_guard lock(mutex_);
      to_write_.push_back({&submission, active.writing});
    }
    handed_.notify_one();
  }
  active_.push_back(std::move(active));
}

// Its deadline has passed. The writer ends one that it has taken by its deadline by itself.
bool WriteRunner::is_due(Active& active, uint64_t now_ns) {
  if (now_ns < active.submission->deadline_ns) return false;
  if (active.writing == nullptr || active.writing->is_written.load()) return true;
  if (!active.writing->take()) return false;
  active.writing->is_written.store(true);
  return true;
}

void WriteRunner::end_active() {
  const uint64_t now_ns = runtime_.clock().now_ns();
  bool are_told = true;  // all before
  for (Active& active : active_) {
    if (active.is_told) continue;
    const bool is_answered = active.is_flush() ? are_told : active.is_answered();
    if (is_answered || is_due(active, now_ns)) {
      if (active.is_flush() && !is_answered) active.submission->code = Code::kTimeout;
      tell(active);
    }
    are_told &= active.is_told;
  }
  std::erase_if(active_, [](Active& active) {
    if (!active.is_told || !active.is_released()) return false;
    if (active.writing != nullptr) active.writing->put.reset();
    active.submission->release();
    return true;
  });
}

// Nothing in here has anything to wait for.
void WriteRunner::tell(Active& active) {
  Submission& submission = *active.submission;
  if (active.writing != nullptr && active.writing->put) {
    const std::span<const PutResult> results = active.writing->put->wait();
    submission.results.assign(results.begin(), results.end());
    submission.why = active.writing->put->why();
  } else if (active.writing != nullptr) {
    // Nothing is written after the deadline, but it is counted, and says where it was to go.
    Put late = client_.put(submission.puts, submission.deadline_ns);
    const std::span<const PutResult> results = late.wait();
    submission.results.assign(results.begin(), results.end());
    const std::lock_guard lock(mutex_);
    submission.why = "the puts before it took all of its time: " +
                     (in_the_way_.empty() ? late.why() : in_the_way_);
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
