#include "client/runner/ahead_driver.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "client/runner/told_verdicts.h"

namespace farpage {
namespace {

constexpr size_t kKeysAtOnce = 1'024;  // heard in one turn
constexpr uint64_t kCopyAtOnceBytes = 256 * kKiB;

}  // namespace

Result<AheadDriver> AheadDriver::open(Client& client, const AheadOptions& options) {
  auto lane = PrefetchLane::open(client, options.lane_options(), options.make_prefetcher());
  if (!lane) return tl::unexpected(lane.error());
  lane->allow_interrupts();
  return AheadDriver(std::move(*lane), client.clock());
}

AheadDriver::AheadDriver(PrefetchLane lane, const Clock& clock)
    : lane_(std::move(lane)), clock_(&clock) {}

std::optional<AheadDriver::Operation> AheadDriver::begin(Submission& submission,
                                                         const std::function<void()>& give_a_turn) {
  const auto some_at_a_time = [&](const auto& tell) {
    const std::span<const PageKey> keys = submission.keys;
    for (size_t i = 0; i < keys.size(); i += kKeysAtOnce) {
      tell(keys.subspan(i, std::min(kKeysAtOnce, keys.size() - i)));
      lane_.progress();
      give_a_turn();
    }
    return std::nullopt;
  };
  switch (submission.kind) {
    case SubmissionKind::kAnnounce:
      return some_at_a_time([&](auto keys) { lane_.announce(keys, submission.deadline_ns); });
    case SubmissionKind::kWithdraw:
      return some_at_a_time([&](auto keys) { lane_.withdraw(keys); });
    case SubmissionKind::kMarkMilestones:
      return some_at_a_time([&](auto keys) {
        for (const PageKey& key : keys) lane_.mark_milestone(key);
      });
    case SubmissionKind::kObserve:  // a step is whole
      lane_.observe(submission.accesses);
      return std::nullopt;
    default:
      break;
  }
  submission.verdicts.resize(submission.requests.size());
  return Operation{lane_.fetch(submission.requests, submission.verdicts, submission.deadline_ns,
                               {.fetch = submission.options})};
}

// Few bytes in a turn, so that no other fetch's deadline waits for them.
bool AheadDriver::go_on(Operation& operation, Submission& submission) {
  if (operation.is_whole || !operation.fetch.done()) return false;
  uint64_t bytes = 0;
  for (; operation.copied < submission.verdicts.size() && bytes < kCopyAtOnceBytes;
       ++operation.copied) {
    PageVerdict& verdict = submission.verdicts[operation.copied];
    bytes += copy(submission.requests[operation.copied], verdict, submission.deadline_ns);
  }
  operation.is_whole = operation.copied == submission.verdicts.size();
  return true;
}

void AheadDriver::finish(Submission& submission) {
  count_told(submission, counters_->told);
}

// How many bytes it has copied. A page whose turn comes after the deadline has come too late.
uint64_t AheadDriver::copy(const PageRequest& request, PageVerdict& verdict, uint64_t deadline_ns) {
  const Slice& destination = request.destination;
  const bool is_near = verdict.verdict == Verdict::kReady && destination.bytes > 0 &&
                       verdict.landed != destination.data;
  if (!is_near) return 0;
  if (clock_->now_ns() >= deadline_ns) {
    verdict.verdict = Verdict::kRecompute;
    verdict.reason = Reason::kStalled;
    verdict.version = 0;
    verdict.landed = nullptr;
    return 0;
  }
  std::memcpy(destination.data, verdict.landed, destination.bytes);
  verdict.landed = destination.data;
  counters_->near.add();
  return destination.bytes;
}

bool AheadDriver::progress() {
  const bool has_moved = lane_.progress();
  counters_->places.store(lane_.taken_places(), std::memory_order_relaxed);
  return has_moved;
}

AheadCounts AheadDriver::counts() const {
  return {.verdicts = counters_->told.verdicts(),
          .near = counters_->near.value(),
          .fetched = lane_.prefetch_stats().pages_ready,
          .places = counters_->places.load(std::memory_order_relaxed)};
}

}  // namespace farpage
