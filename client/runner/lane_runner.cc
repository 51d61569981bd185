#include "client/runner/lane_runner.h"

#include <algorithm>
#include <span>
#include <utility>

namespace farpage {
namespace {

constexpr size_t kAtOnce = 16;         // submissions begun in one turn
constexpr size_t kKeysAtOnce = 1'024;  // looked up in one turn

// The answers of an index become verdicts, among those of the fetch, which are the first. These
// stay as they are, because nothing of them is held.
void take_answers(Submission& submission) {
  size_t fetched = submission.requests.size();
  for (size_t i = submission.answers.size(); i-- > 0;) {
    PageVerdict& verdict = submission.verdicts[i];
    if (submission.answers[i] == KeyAnswer::kUnknown) {
      verdict = submission.verdicts[--fetched];
      continue;
    }
    const bool is_shown = submission.answers[i] == KeyAnswer::kShown;
    verdict = {};
    verdict.verdict = is_shown ? Verdict::kReady : Verdict::kRecompute;
    verdict.reason = is_shown ? Reason::kNone : Reason::kMiss;
  }
}

}  // namespace

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
    const bool is_ending = is_ending_.load();  // what was submitted before is in the queue
    const bool has_begun = begin_submitted();
    const bool has_moved = lane_.progress();
    const bool has_gone_on = end_active();
    if (has_begun || has_moved || has_gone_on) continue;
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
    active_.push_back(begin(*submission));
  }
  return begun > 0;
}

// A question whether pages are there goes to the indexes, mapped or read, and with the keys that
// these leave unknown becomes a fetch without destinations, which asks any node.
LaneRunner::Active LaneRunner::begin(Submission& submission) {
  Active active;
  active.submission = &submission;
  if (submission.kind == SubmissionKind::kExists) {
    active.asks = true;
    submission.answers.resize(submission.keys.size());
    if (!look_up(submission)) {
      active.question = lane_.ask(submission.keys, submission.answers, submission.deadline_ns);
    }
    return active;
  }
  submission.verdicts.resize(submission.requests.size());
  active.fetch = lane_.fetch(submission.requests, submission.verdicts, submission.deadline_ns,
                             submission.options);
  return active;
}

bool LaneRunner::look_up(Submission& submission) {
  const std::span<const PageKey> keys = submission.keys;
  for (size_t i = 0; i < keys.size(); i += kKeysAtOnce) {
    const size_t count = std::min(kKeysAtOnce, keys.size() - i);
    const bool is_shown =
        clock_.now_ns() < submission.deadline_ns &&
        lane_.look_up(keys.subspan(i, count), std::span(submission.answers).subspan(i, count));
    if (!is_shown) return false;
    end_active();
  }
  return true;
}

// The question is done: a fetch gives the verdicts of keys that are unknown, in their order.
void LaneRunner::go_on_unknown(Active& active) {
  Submission& submission = *active.submission;
  active.asks = false;
  active.question = {};
  for (size_t i = 0; i < submission.keys.size(); ++i) {
    if (submission.answers[i] != KeyAnswer::kUnknown) continue;
    submission.requests.push_back({submission.keys[i], 0, {}});
  }
  submission.verdicts.resize(submission.keys.size());
  if (submission.requests.empty()) return;
  active.fetch = lane_.fetch(submission.requests,
                             std::span(submission.verdicts).first(submission.requests.size()),
                             submission.deadline_ns, submission.options);
}

// Whether a fetch has begun.
bool LaneRunner::end_active() {
  bool has_begun = false;
  for (size_t i = 0; i < active_.size();) {
    Active& active = active_[i];
    if (active.asks && active.question.done()) {
      go_on_unknown(active);
      has_begun = true;
    }
    if (!active.is_told && !active.asks && active.fetch.done()) {
      active.is_told = true;
      take_answers(*active.submission);
      active.submission->finish();
    }
    if (!active.is_told || !active.fetch.released()) {
      ++i;
      continue;
    }
    Submission& submission = *active.submission;
    std::swap(active, active_.back());
    active_.pop_back();  // with its fetch
    submission.release();
  }
  return has_begun;
}

}  // namespace farpage
