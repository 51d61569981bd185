#include "bench/push_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "bench/fill_node.h"
#include "control/messages.h"
#include "pagetable/geometry.h"
#include "replay/page_content.h"
#include "replay/page_fit.h"

namespace farpage {
namespace {

constexpr uint64_t kDeadlineNs = 30 * kSecond;
constexpr double kTurnSeconds = 0.5;  // between two looks at what has landed

}  // namespace

Result<void> PushBenchOptions::validate() const {
  if (auto valid = check_page_bytes(page_bytes); !valid) return valid;
  if (batch == 0 || batch > kMaxPushPages || group == 0 || group > batch ||
      push_groups(batch, group) > kMaxPushGroups) {
    return fail(Code::kInvalid,
                fmt::format("a push of {} pages in groups of {}: choose 1 to {} pages, in 1 to {} "
                            "groups",
                            batch, group, kMaxPushPages, kMaxPushGroups));
  }
  if (pool_bytes < page_bytes) {
    return fail(Code::kInvalid, "the pool holds no page: choose a larger --pool-bytes");
  }
  if (!(seconds > 0 && seconds <= 3600)) {
    return fail(Code::kInvalid, "choose more than 0 and at most 3600 seconds");
  }
  return {};
}

Result<PushBenchResult> run_push_bench(Client& client, const PushBenchOptions& options,
                                       const std::function<bool()>& interrupted,
                                       const std::function<void(uint64_t, uint64_t)>& filled) {
  if (auto fits = check_page_fits(options.page_bytes, client); !fits) {
    return tl::unexpected(fits.error());
  }
  PushBenchResult result;
  auto lane = client.open_push_lane({.pages = static_cast<uint32_t>(options.batch),
                                     .group_pages = static_cast<uint32_t>(options.group)});
  if (!lane) return tl::unexpected(lane.error());
  const FillOptions fill = {options.name_space, options.page_bytes,
                            options.pool_bytes / options.page_bytes};
  const auto keys = fill_node(client, fill, interrupted, filled);
  if (!keys) return tl::unexpected(keys.error());
  result.pages_stored = keys->size();
  if ((result.interrupted = interrupted())) return result;

  Random random(1);
  std::vector<PushedPage> requests(options.batch);
  std::vector<PageVerdict> verdicts(options.batch);
  Push push;
  // Each in a turn of a fraction of a second; the first one's time is not taken.
  double seconds_left = options.seconds;
  double pushing_s = 0;
  for (bool warm = false; seconds_left > 0 && !interrupted(); warm = true) {
    const double turn_s = warm ? std::min(seconds_left, kTurnSeconds) : 0;
    const uint64_t began = boottime_clock().now_ns();
    uint64_t now = began;
    do {
      for (PushedPage& page : requests) {
        page = {(*keys)[random.below(keys->size())], 0, options.page_bytes};
      }
      const uint64_t start = boottime_clock().now_ns();
      push = Push();
      push = lane->push(requests, verdicts, client.clock().now_ns() + kDeadlineNs);
      push.wait();
      now = boottime_clock().now_ns();
      if (!warm) continue;
      ++result.pushes;
      result.push_ns.add(static_cast<double>(now - start));
      for (const PageVerdict& verdict : verdicts) {
        ++result.verdicts[static_cast<size_t>(verdict.reason)];
      }
    } while (static_cast<double>(now - began) * 1e-9 < turn_s);
    if (warm) {
      pushing_s += static_cast<double>(now - began) * 1e-9;
      seconds_left -= static_cast<double>(now - began) * 1e-9;
    }
    for (size_t i = 0; i < requests.size(); ++i) {
      if (verdicts[i].verdict != Verdict::kReady) continue;
      ++result.checked_pages;
      result.wrong_bytes += count_wrong_bytes(push.payload(i), requests[i].key, {1, 1});
    }
  }
  result.interrupted = interrupted();
  result.lane = lane->stats();
  if (pushing_s > 0) result.pages_per_s = static_cast<double>(result.verdicts[0]) / pushing_s;
  return result;
}

}  // namespace farpage
