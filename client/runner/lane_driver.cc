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

std::optional<Fetch> LaneDriver::begin(Submission& submission,
                                       const std::function<void()>& give_a_turn) {
  if (submission.kind == SubmissionKind::kExists && answer_from_index(submission, give_a_turn)) {
    return std::nullopt;
  }
  submission.verdicts.resize(submission.requests.size());
  return lane_.fetch(submission.requests, submission.verdicts, submission.deadline_ns,
                     submission.options);
}

// Otherwise it becomes a fetch without destinations, which asks any node.
bool LaneDriver::answer_from_index(Submission& submission,
                                   const std::function<void()>& give_a_turn) {
  const std::span<const PageKey> keys = submission.keys;
  shown_.resize(keys.size());
  bool is_shown = true;
  for (size_t i = 0; i < keys.size() && is_shown; i += kKeysAtOnce) {
    const size_t count = std::min(kKeysAtOnce, keys.size() - i);
    is_shown = clock_->now_ns() < submission.deadline_ns &&
               lane_.look_up(keys.subspan(i, count), std::span(shown_).subspan(i, count));
    give_a_turn();
  }
  if (is_shown) {
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

}  // namespace farpage
