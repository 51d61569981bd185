#include "client/runner/lane_driver.h"

#include <algorithm>
#include <span>
#include <utility>

namespace farpage {
namespace {

constexpr size_t kKeysAtOnce = 1'024;  // looked up in one turn

}  // namespace

Result<LaneDriver> LaneDriver::open(Client& client) {
  auto lane = client.open_lane();
  if (!lane) return tl::unexpected(lane.error());
  lane->allow_interrupts();
  return LaneDriver(std::move(*lane), client.clock());
}

std::optional<LaneDriver::Operation> LaneDriver::begin(Submission& submission,
                                                       const std::function<void()>&) {
  Operation operation;
  if (submission.kind == SubmissionKind::kExists) {
    operation.asks = true;
    operation.asked_ns = clock_->now_ns();
    submission.answers.resize(submission.keys.size());
    return operation;
  }
  submission.verdicts.resize(submission.requests.size());
  operation.fetch = lane_.fetch(submission.requests, submission.verdicts, submission.deadline_ns,
                                submission.options);
  return operation;
}

// A few keys in each turn, so that others begin meanwhile.
void LaneDriver::look_up(Operation& operation, Submission& submission) {
  const std::span<const PageKey> keys = submission.keys;
  const size_t first = operation.looked_up;
  const size_t count = std::min(kKeysAtOnce, keys.size() - first);
  const bool is_shown = clock_->now_ns() < submission.deadline_ns &&
                        lane_.look_up(keys.subspan(first, count),
                                      std::span(submission.answers).subspan(first, count));
  operation.looked_up = is_shown ? first + count : keys.size();
  if (is_shown) return;
  operation.question = lane_.ask(submission.keys, submission.answers, submission.deadline_ns);
}

// The question is done: a fetch gives the verdicts of keys that are unknown, in their order.
bool LaneDriver::go_on(Operation& operation, Submission& submission) {
  if (!operation.asks) return false;
  if (operation.looked_up < submission.keys.size()) {
    look_up(operation, submission);
    return true;
  }
  if (!operation.question.done()) return false;
  operation.asks = false;
  operation.question = {};
  submission.answered_ns = clock_->now_ns() - operation.asked_ns;
  for (size_t i = 0; i < submission.keys.size(); ++i) {
    if (submission.answers[i] != KeyAnswer::kUnknown) continue;
    submission.requests.push_back({submission.keys[i], 0, {}});
  }
  submission.verdicts.resize(submission.keys.size());
  if (submission.requests.empty()) return true;
  operation.fetch = lane_.fetch(submission.requests,
                                std::span(submission.verdicts).first(submission.requests.size()),
                                submission.deadline_ns, submission.options);
  return true;
}

// The answers of an index become verdicts, among those of the fetch, which are the first. These
// stay as they are, because nothing of them is held.
void LaneDriver::finish(Submission& submission) {
  size_t fetched = submission.requests.size();
  for (size_t i = submission.answers.size(); i-- > 0;) {
    PageVerdict& verdict = submission.verdicts[i];
    if (submission.answers[i] == KeyAnswer::kUnknown) {
      verdict = submission.verdicts[--fetched];
      continue;
    }
    const bool is_shown = submission.answers[i] == KeyAnswer::kShown;
    verdict = {};
    verdict.took_ns = submission.answered_ns;
    verdict.verdict = is_shown ? Verdict::kReady : Verdict::kRecompute;
    verdict.reason = is_shown ? Reason::kNone : Reason::kMiss;
  }
}

}  // namespace farpage
