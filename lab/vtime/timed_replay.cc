#include "lab/vtime/timed_replay.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"
#include "base/units.h"
#include "lab/paging/for_each_step.h"
#include "lab/vtime/scheduled_wire.h"
#include "lab/vtime/step_replay.h"
#include "lab/vtime/virtual_wire.h"

namespace farpage::vtime {
namespace {

using paging::AccessTrace;

double ratio(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

double TimedResult::accuracy() const {
  return ratio(prefetch.useful(), prefetch.begun);
}
double TimedResult::coverage() const {
  return ratio(prefetch.useful(), prefetch.useful() + demand_fetches);
}
double TimedResult::timeliness() const {
  return ratio(prefetch.timely, prefetch.useful());
}
double TimedResult::imprecise_share() const {
  return ratio(imprecise_accesses, paging.accesses);
}
double TimedResult::steps_per_s() const {
  return ratio(steps, end_ns) * kSecond;
}

Result<void> TimedOptions::validate() const {
  if (page_bytes == 0 || page_bytes > kGiB) {
    return fail(Code::kInvalid, "a page has 1 byte to 1 GiB");
  }
  if (prefetch_pages > 1'000'000) {
    return fail(Code::kInvalid, "at most a million pages can be asked for after a step");
  }
  for (const TierOptions& tier : tiers) {
    const uint64_t transfer_ns = VirtualWire::transfer_ns(page_bytes, tier.bits, tier);
    if (std::max(tier.latency_ns, transfer_ns) <= VirtualWire::kMostNs) continue;
    return fail(Code::kInvalid, "a tier is too slow: a page would be decades on its way");
  }
  return vtime::validate(tiers);
}

Result<TimedResult> replay(const AccessTrace& trace, uint64_t budget_pages,
                           const TimedOptions& options, prefetch::Policy& policy,
                           prefetch::Prefetcher& prefetcher, const MakePlacement& make_placement) {
  VirtualWire wire(options.tiers, options.page_bytes, make_placement);
  ScheduledWire scheduled(wire, options.scheduler);
  StepReplay replay(trace.pages, budget_pages, options, scheduled, policy, prefetcher);
  auto read = paging::for_each_step(
      trace, [&](std::span<const prefetch::Access> accesses) { replay.step(accesses); });
  if (!read) return tl::unexpected(read.error());
  if (wire.now_ns() >= VirtualWire::kEndNs) {
    return fail(Code::kInvalid,
                "the replay takes more than 146 years of virtual time: choose less --compute-us, "
                "less --page-bytes, or a faster --tier");
  }
  TimedResult result = replay.end();
  result.waited_ns = wire.waited_ns();
  result.written_pages = wire.written_pages();
  result.imprecise_accesses = wire.imprecise_accesses();
  result.imprecise_mass = wire.imprecise_mass();
  return result;
}

}  // namespace farpage::vtime
