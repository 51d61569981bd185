#include "client/runner/lane_runner.h"

#include <algorithm>
#include <utility>

namespace farpage {

Result<std::unique_ptr<LaneRunner>> LaneRunner::start(Client& client, size_t depth) {
  auto lane = client.open_lane();
  if (!lane) return tl::unexpected(lane.error());
  lane->allow_interrupts();
  return std::unique_ptr<LaneRunner>(new LaneRunner(std::move(*lane), client.clock(), depth));
}

LaneRunner::LaneRunner(Lane lane, const Clock& clock, size_t depth)
    : lane_(std::move(lane)), clock_(clock), pool_(std::make_shared<SubmissionPool>(depth)) {
  active_.reserve(depth);
  thread_ = std::thread([this] { run(); });
}

LaneRunner::~LaneRunner() {
  is_ending_.store(true);
  pool_->ring();
  lane_.interrupt();
  thread_.join();
}

void LaneRunner::submit(Submission& submission) {
  pool_->submit(submission);
  lane_.interrupt();
}

void LaneRunner::run() {
  while (true) {
    const uint32_t seen = pool_->rings();
    begin_submitted();
    const bool has_moved = lane_.progress();
    end_active();
    if (has_moved) continue;
    if (!active_.empty()) {
      lane_.wait(kNever);
    } else if (is_ending_.load()) {
      return;
    } else {
      pool_->sleep(seen);
    }
  }
}

void LaneRunner::begin_submitted() {
  while (Submission* submission = pool_->next_submitted()) {
    if (submission->kind == SubmissionKind::kExists && answer_from_index(*submission)) continue;
    submission->verdicts.resize(submission->requests.size());
    active_.push_back({submission,
                       lane_.fetch(submission->requests, submission->verdicts,
                                   submission->deadline_ns, submission->options),
                       false});
  }
}

// Otherwise it becomes a fetch without destinations, which asks any node.
bool LaneRunner::answer_from_index(Submission& submission) {
  const std::vector<PageKey>& keys = submission.keys;
  shown_.resize(keys.size());
  if (clock_.now_ns() < submission.deadline_ns && lane_.look_up(keys, shown_)) {
    submission.verdicts.resize(keys.size());
    for (size_t i = 0; i < keys.size(); ++i) {
      submission.verdicts[i].verdict = shown_[i] != 0 ? Verdict::kReady : Verdict::kRecompute;
      submission.verdicts[i].reason = shown_[i] != 0 ? Reason::kNone : Reason::kMiss;
    }
    submission.finish();
    submission.release();
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
    Active ended = std::move(active);
    if (&active != &active_.back()) active = std::move(active_.back());
    active_.pop_back();
    ended.fetch = {};
    ended.submission->release();
  }
}

}  // namespace farpage
