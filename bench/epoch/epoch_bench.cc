#include "bench/epoch/epoch_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <utility>

#include "base/clock.h"
#include "base/units.h"
#include "bench/epoch/lone_member.h"
#include "bench/fetch/fetch_bench.h"
#include "bench/fill_node.h"
#include "client/embedded/private_folder.h"
#include "pagetable/geometry.h"
#include "replay/page_content.h"
#include "replay/page_fit.h"
#include "report/json.h"

namespace farpage {
namespace {

constexpr uint64_t kPatienceNs = 10 * kSecond;       // for one answer
constexpr uint64_t kEpochPatienceNs = 60 * kSecond;  // for an epoch
constexpr uint64_t kBeforeNs = 2 * kSecond;

Result<StatusReply> ask(LoneMember& member) {
  return member.client().node_status(member.client().clock().now_ns() + kPatienceNs);
}

// Lets the phase begin, and asks the node over and over until it is over.
Result<EpochPhase> run_phase(LoneMember& member, std::string what,
                             const std::function<Result<void>()>& begin,
                             const std::function<bool(uint64_t lasted_ns)>& is_over) {
  const auto before = ask(member);
  if (!before) return tl::unexpected(before.error());
  EpochPhase phase;
  phase.what = std::move(what);
  const Clock& clock = boottime_clock();
  const uint64_t began_ns = clock.now_ns();
  if (auto begun = begin(); !begun) return tl::unexpected(begun.error());
  uint64_t last_ns = began_ns;
  for (uint64_t answers = 1;;) {
    const bool is_last = is_over(clock.now_ns() - began_ns);  // its answer tells all of the phase
    const auto status = ask(member);
    const uint64_t now = clock.now_ns();
    if (now - began_ns > kEpochPatienceNs) {
      return fail(Code::kTimeout, "the node has not entered the epoch for a minute");
    }
    if (!status) {
      if (status.error().code != Code::kUnavailable) return tl::unexpected(status.error());
      ++phase.without_view;
      continue;
    }
    phase.longest_gap_ms =
        std::max(phase.longest_gap_ms, static_cast<double>(now - last_ns) / kMillisecond);
    last_ns = now;
    phase.answers_per_s =
        static_cast<double>(answers++) * kSecond / static_cast<double>(now - began_ns);
    if (!is_last) continue;
    phase.killed = before->slots_live - std::min(before->slots_live, status->slots_live);
    phase.seconds = static_cast<double>(now - began_ns) / kSecond;
    return phase;
  }
}

}  // namespace

Result<void> EpochBenchOptions::validate() const {
  if (auto valid = check_page_bytes(page_bytes); !valid) return valid;
  if (pages == 0 || page_bytes < kMinContentBytes) {
    return fail(Code::kInvalid, "choose at least one page, of at least 64 bytes");
  }
  if (members < 2 || members >= kMaxMembers) {
    return fail(Code::kInvalid, fmt::format("choose 2 to {} members", kMaxMembers - 1));
  }
  if (lease_ms < 100 || lease_ms > 60'000) {
    return fail(Code::kInvalid, "choose a lease of 100 to 60000 ms");
  }
  return {};
}

double EpochBenchResult::longest_renewal_gap_ms() const {
  double longest = 0;
  for (size_t i = 1; i < phases.size(); ++i) longest = std::max(longest, phases[i].longest_gap_ms);
  return longest;
}

Result<EpochBenchResult> run_epoch_bench(
    const EpochBenchOptions& options, const std::function<std::unique_ptr<Fabric>()>& make_fabric,
    const std::function<bool()>& interrupted,
    const std::function<void(uint64_t, uint64_t)>& filled) {
  auto folder = PrivateFolder::create();
  if (!folder) return tl::unexpected(folder.error());
  NodeOptions node;
  node.page_bytes = options.page_bytes;
  node.pool_bytes =
      Geometry{options.page_bytes, FetchBench::slots_for(options.pages), 2}.pool_bytes();
  node.lease_ms = options.lease_ms;
  node.max_requests_per_s = 10'000'000;  // more than a client can ask
  auto member = LoneMember::start(node, make_fabric, folder->path());
  if (!member) return tl::unexpected(member.error());
  LoneMember& lone = **member;
  const auto keys =
      fill_node(lone.client(), {"epoch", options.page_bytes, options.pages}, interrupted, filled);
  if (!keys) return tl::unexpected(keys.error());
  EpochBenchResult result;
  result.interrupted = interrupted();
  if (result.interrupted) return result;
  result.pages = keys->size();

  std::vector<Member> others;
  const auto run = [&](std::string what, uint64_t joins, uint64_t leaves) -> Result<void> {
    const bool is_epoch = joins + leaves > 0;
    others.erase(others.begin(), others.begin() + static_cast<int64_t>(leaves));
    while (joins > 0) others.push_back({node_id("other " + std::to_string(joins--) + what), 1});
    auto phase = run_phase(
        lone, std::move(what), [&] { return is_epoch ? lone.begin_epoch(others) : Result<void>(); },
        [&](uint64_t lasted_ns) {
          return interrupted() || (is_epoch ? lone.has_confirmed() : lasted_ns >= kBeforeNs);
        });
    if (!phase) return tl::unexpected(phase.error());
    result.phases.push_back(std::move(*phase));
    return {};
  };
  const uint64_t first = options.members - 2;
  for (const auto& [what, joins, leaves] :
       {std::tuple("no epoch begins", uint64_t{0}, uint64_t{0}),
        std::tuple("the others join", first + 1, uint64_t{0}),
        std::tuple("a member leaves", uint64_t{0}, uint64_t{1}),
        std::tuple("a member joins", uint64_t{1}, uint64_t{0})}) {
    if (auto done = run(what, joins, leaves); !done) return tl::unexpected(done.error());
  }
  result.interrupted = interrupted();
  return result;
}

namespace json = boost::json;

json::object epoch_json(const EpochBenchOptions& options, const EpochBenchResult& result,
                        const std::string& version) {
  json::array phases;
  for (const EpochPhase& phase : result.phases) {
    phases.push_back(json::object{{"what", phase.what},
                                  {"seconds", phase.seconds},
                                  {"answers_per_s", phase.answers_per_s},
                                  {"longest_gap_ms", phase.longest_gap_ms},
                                  {"killed", phase.killed},
                                  {"without_view", phase.without_view}});
  }
  return {{"version", version},
          {"configuration",
           {{"pages", options.pages},
            {"page_bytes", options.page_bytes},
            {"members", options.members},
            {"lease_ms", options.lease_ms}}},
          {"hardware", hardware_json()},
          {"interrupted", result.interrupted},
          {"pages", result.pages},
          {"longest_renewal_gap_ms", result.longest_renewal_gap_ms()},
          {"phases", std::move(phases)}};
}

std::string epoch_table(const EpochBenchResult& result) {
  std::string text = fmt::format("{:<18} {:>10} {:>12} {:>14} {:>12} {:>14}\n", "", "seconds",
                                 "answers/s", "longest gap", "killed", "without view");
  for (const EpochPhase& phase : result.phases) {
    text += fmt::format("{:<18} {:>10.3f} {:>12.0f} {:>11.2f} ms {:>12} {:>14}\n", phase.what,
                        phase.seconds, phase.answers_per_s, phase.longest_gap_ms, phase.killed,
                        phase.without_view);
  }
  return text;
}

}  // namespace farpage
