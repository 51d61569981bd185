#include "client/runner/ahead_driver.h"

#include <cstring>
#include <utility>

namespace farpage {

Result<AheadDriver> AheadDriver::open(Client& client, const AheadOptions& options) {
  auto lane = PrefetchLane::open(client, options.lane_options(), options.make_prefetcher());
  if (!lane) return tl::unexpected(lane.error());
  lane->allow_interrupts();
  return AheadDriver(std::move(*lane), client.clock());
}

AheadDriver::AheadDriver(PrefetchLane lane, const Clock& clock)
    : lane_(std::move(lane)), clock_(&clock) {}

std::optional<DemandFetch> AheadDriver::begin(Submission& submission,
                                              const std::function<void()>&) {
  switch (submission.kind) {
    case SubmissionKind::kAnnounce:
      lane_.announce(submission.keys, submission.deadline_ns);
      return std::nullopt;
    case SubmissionKind::kWithdraw:
      lane_.withdraw(submission.keys);
      return std::nullopt;
    case SubmissionKind::kMarkMilestones:
      for (const PageKey& key : submission.keys) lane_.mark_milestone(key);
      return std::nullopt;
    case SubmissionKind::kObserve:
      lane_.observe(submission.accesses);
      return std::nullopt;
    default:
      break;
  }
  submission.verdicts.resize(submission.requests.size());
  return lane_.fetch(submission.requests, submission.verdicts, submission.deadline_ns,
                     {.fetch = submission.options});
}

void AheadDriver::finish(Submission& submission) {
  const size_t count = submission.verdicts.size();
  for (size_t i = 0; i < count; ++i) {
    const PageRequest& request = submission.requests[i];
    PageVerdict& verdict = submission.verdicts[i];
    const bool is_near = verdict.verdict == Verdict::kReady &&
                         verdict.landed != request.destination.data &&
                         request.destination.bytes > 0;
    if (is_near && copy(request, verdict, submission.deadline_ns)) counters_->near.add();
    const bool ends_fetch = i + 1 == count;
    if (verdict.verdict == Verdict::kReady) {
      counters_->told.count_ready(1, request.destination.bytes, verdict.took_ns, ends_fetch);
    } else {
      counters_->told.count_recompute(verdict.reason, verdict.took_ns, ends_fetch);
    }
  }
}

// False: that took until after the deadline, so that the page came too late.
bool AheadDriver::copy(const PageRequest& request, PageVerdict& verdict, uint64_t deadline_ns) {
  std::memcpy(request.destination.data, verdict.landed, request.destination.bytes);
  verdict.landed = request.destination.data;
  lane_.progress();  // the other fetches' deadlines do not wait for copies
  if (clock_->now_ns() < deadline_ns) return true;
  verdict.verdict = Verdict::kRecompute;
  verdict.reason = Reason::kStalled;
  verdict.version = 0;
  verdict.landed = nullptr;
  return false;
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
