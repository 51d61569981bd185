#include "client/runner/lane_runner.h"

#include <algorithm>
#include <span>
#include <utility>

namespace farpage {
namespace {

constexpr size_t kAtOnce = 16;         // submissions begun in one turn
constexpr size_t kKeysAtOnce = 1'024;  // looked up in one turn

}  // namespace

Result<std::unique_ptr<LaneRunner>> LaneRunner::start(Client& client,
                                                      const RunnerOptions& options) {
  auto lane = client.open_lane();
  if (!lane) return tl::unexpected(lane.error());
  lane->allow_interrupts();
  return std::unique_ptr<LaneRunner>(new LaneRunner(std::move(*lane), client.clock(), options));
}

LaneRunner::LaneRunner(Lane lane, const Clock& clock, const RunnerOptions& options)
    : lane_(std::move(lane)), clock_(clock), pool_(std::make_shared<SubmissionPool>(options)) {
  active_.reserve(options.queue_depth);
  thread_ = std::thread([this] { run(); });
}

LaneRunner::~LaneRunner() {
  is_ending_.store(true);
  pool_->ring();
  lane_.interrupt();
  thread_.join();
}

void LaneRunner::submit(Submission& submission) {
  under_way_.fetch_add(1, std::memory_order_relaxed);
  pool_->submit(submission);
  lane_.interrupt();
}

void LaneRunner::run() {
  while (true) {
    const uint32_t seen = pool_->rings();
    const bool is_ending = is_ending_.load();  // what was submitted before is in the queue
    const bool has_begun = begin_submitted();
    const bool has_moved = lane_.progress();
    end_active();
    if (has_begun || has_moved) continue;
    if (!active_.empty()) {
      lane_.wait(kNever);
    } else if (is_ending) {
      return;
    } else {
      pool_->sleep(seen);
    }
  }
}

// A few, so that those under way have their turn.
bool LaneRunner::begin_submitted() {
  size_t begun = 0;
  for (; begun < kAtOnce; ++begun) {
    Submission* submission = pool_->next_submitted();
    if (submission == nullptr) break;
    if (submission->kind == SubmissionKind::kExists && answer_from_index(*submission)) continue;
    submission->verdicts.resize(submission->requests.size());
    active_.push_back({submission,
                       lane_.fetch(submission->requests, submission->verdicts,
                                   submission->deadline_ns, submission->options),
                       false});
  }
  return begun > 0;
}

// Otherwise it becomes a fetch without destinations, which asks any node.
bool LaneRunner::answer_from_index(Submission& submission) {
  const std::span<const PageKey> keys = submission.keys;
  shown_.resize(keys.size());
  bool is_shown = true;
  for (size_t i = 0; i < keys.size() && is_shown; i += kKeysAtOnce) {
    const size_t count = std::min(kKeysAtOnce, keys.size() - i);
    is_shown = clock_.now_ns() < submission.deadline_ns &&
               lane_.look_up(keys.subspan(i, count), std::span(shown_).subspan(i, count));
    end_active();
  }
  if (is_shown) {
    submission.verdicts.resize(keys.size());
    for (size_t i = 0; i < keys.size(); ++i) {
      submission.verdicts[i].verdict = shown_[i] != 0 ? Verdict::kReady : Verdict::kRecompute;
      submission.verdicts[i].reason = shown_[i] != 0 ? Reason::kNone : Reason::kMiss;
    }
    submission.finish();
    release(submission);
    return true;
  }
  submission.requests.resize(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) submission.requests[i] = {keys[i], 0, {}};
  return false;
}

void LaneRunner::end_active() {
  for (size_t i = 0; i < active_.size();) {
    Active& active = active_[i];
    if (!active.is_told && active.fetch.done()) {
      active.is_told = true;
      active.submission->finish();
    }
    if (!active.is_told || !active.fetch.released()) {
      ++i;
      continue;
    }
    Submission& submission = *active.submission;
    std::swap(active, active_.back());
    active_.pop_back();  // with its fetch
    release(submission);
  }
}

void LaneRunner::release(Submission& submission) {
  under_way_.fetch_sub(1, std::memory_order_relaxed);
  submission.release();
}

}  // namespace farpage
