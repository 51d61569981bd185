#include "bench/epoch/epoch_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/units.h"
#include "bench/epoch/epoch_load.h"
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

constexpr uint64_t kPatienceNs = 10 * kSecond;  // for one answer
// For an epoch, which takes 1.2 us a page where two of three die.
constexpr uint64_t kEpochPatienceNs = 60 * kSecond;
constexpr uint64_t kPagePatienceNs = 4'000;
constexpr uint64_t kQuietNs = 2 * kSecond;
constexpr double kLastsSeconds = 0.5;  // a phase whose throughput says something

// The node may have another epoch than the client has heard of.
Result<uint64_t> live_pages(LoneMember& member) {
  const uint64_t deadline_ns = member.client().clock().now_ns() + kPatienceNs;
  for (;;) {
    const auto status = member.client().node_status(deadline_ns);
    if (status) return status->slots_live;
    if (status.error().code != Code::kUnavailable) return tl::unexpected(status.error());
    if (member.client().clock().now_ns() >= deadline_ns) return tl::unexpected(status.error());
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// Lets the phase begin, and loads the node until it is over.
Result<EpochPhase> run_phase(LoneMember& member, EpochLoad& load, std::string what,
                             const std::function<Result<void>()>& begin,
                             const std::function<bool(uint64_t lasted_ns)>& is_over) {
  const auto before = live_pages(member);
  if (!before) return tl::unexpected(before.error());
  const uint64_t patience_ns = kEpochPatienceNs + *before * kPagePatienceNs;
  const Clock& clock = boottime_clock();
  const uint64_t began_ns = clock.now_ns();
  load.begin();
  if (auto begun = begin(); !begun) return tl::unexpected(begun.error());
  for (bool is_last = false; !is_last || load.counts().done == 0;) {
    is_last = is_over(clock.now_ns() - began_ns);
    if (auto stepped = load.step(); !stepped) return tl::unexpected(stepped.error());
    if (clock.now_ns() - began_ns > patience_ns) {
      return fail(Code::kTimeout, fmt::format("the node has not entered the epoch for {} s",
                                              patience_ns / kSecond));
    }
  }
  const uint64_t lasted_ns = clock.now_ns() - began_ns;
  const auto after = live_pages(member);
  if (!after) return tl::unexpected(after.error());
  const EpochLoad::Counts counts = load.counts();
  return EpochPhase{std::move(what),
                    static_cast<double>(lasted_ns) / kSecond,
                    static_cast<double>(counts.done) / counts.seconds,
                    counts.longest_s * 1e3,
                    *before - std::min(*before, *after),
                    counts.missed};
}

// The members but the lone one, as they come and go: what happens, and who they are then.
struct Change {
  std::string what;
  std::vector<Member> others;
};

std::vector<Change> changes(uint64_t members) {
  std::vector<Member> others;
  std::vector<Change> changes;
  const auto change = [&](std::string what, uint64_t joins, uint64_t leaves) {
    others.erase(others.begin(), others.begin() + static_cast<int64_t>(leaves));
    while (joins > 0) others.push_back({node_id("other " + std::to_string(joins--) + what), 1});
    changes.push_back({std::move(what), others});
  };
  change("the others join", members - 1, 0);
  change("a member leaves", 0, 1);
  change("a member joins", 1, 0);
  return changes;
}

Result<std::unique_ptr<EpochLoad>> make_load(const EpochBenchOptions& options, LoneMember& member,
                                             std::vector<PageKey> keys,
                                             const std::vector<Change>& changes) {
  if (!options.fetches) return std::make_unique<QuestionLoad>(member);
  std::vector<Epoch> epochs = {member.epoch()};
  for (const Change& change : changes) {
    epochs.push_back(LoneMember::next_epoch(epochs.back(), change.others));
  }
  return FetchLoad::open(member, options.page_bytes, std::move(keys), epochs)
      .map([](std::unique_ptr<FetchLoad> load) -> std::unique_ptr<EpochLoad> { return load; });
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

double EpochBenchResult::longest_ms() const {
  double longest = 0;
  for (const EpochPhase& phase : phases) longest = std::max(longest, phase.longest_ms);
  return longest;
}

double EpochBenchResult::least_throughput() const {
  double least = 0;
  for (const EpochPhase& phase : phases) {
    if (phase.seconds < kLastsSeconds) continue;
    const double throughput = phase.per_s / quiet.per_s;
    least = least == 0 ? throughput : std::min(least, throughput);
  }
  return least;
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
  auto keys =
      fill_node(lone.client(), {"epoch", options.page_bytes, options.pages}, interrupted, filled);
  if (!keys) return tl::unexpected(keys.error());
  EpochBenchResult result;
  result.interrupted = interrupted();
  if (result.interrupted) return result;
  result.pages = keys->size();

  const std::vector<Change> epochs = changes(options.members);
  auto load = make_load(options, lone, std::move(*keys), epochs);
  if (!load) return tl::unexpected(load.error());
  for (const Change& change : epochs) {
    auto phase = run_phase(
        lone, **load, change.what, [&] { return lone.begin_epoch(change.others); },
        [&](uint64_t /*lasted_ns*/) { return interrupted() || lone.has_confirmed(); });
    if (!phase) return tl::unexpected(phase.error());
    result.phases.push_back(std::move(*phase));
    if (result.phases.size() > 1) continue;
    auto quiet = run_phase(
        lone, **load, "no epoch begins", [] { return Result<void>(); },
        [&](uint64_t lasted_ns) { return interrupted() || lasted_ns >= kQuietNs; });
    if (!quiet) return tl::unexpected(quiet.error());
    result.quiet = std::move(*quiet);
  }
  result.interrupted = interrupted();
  return result;
}

namespace json = boost::json;

namespace {

json::object phase_json(const EpochPhase& phase) {
  return {{"what", phase.what},     {"seconds", phase.seconds},
          {"per_s", phase.per_s},   {"longest_ms", phase.longest_ms},
          {"killed", phase.killed}, {"missed", phase.missed}};
}

}  // namespace

json::object epoch_json(const EpochBenchOptions& options, const EpochBenchResult& result,
                        const std::string& version) {
  json::array phases;
  for (const EpochPhase& phase : result.phases) phases.push_back(phase_json(phase));
  return {{"version", version},
          {"configuration",
           {{"pages", options.pages},
            {"page_bytes", options.page_bytes},
            {"members", options.members},
            {"lease_ms", options.lease_ms},
            {"fetches", options.fetches}}},
          {"hardware", hardware_json()},
          {"interrupted", result.interrupted},
          {"pages", result.pages},
          {options.fetches ? "longest_fetch_ms" : "longest_renewal_gap_ms", result.longest_ms()},
          {"least_throughput", result.least_throughput()},
          {"quiet", phase_json(result.quiet)},
          {"phases", std::move(phases)}};
}

std::string epoch_table(const EpochBenchOptions& options, const EpochBenchResult& result) {
  std::string text = fmt::format("{:<18} {:>10} {:>12} {:>14} {:>12} {:>14}\n", "", "seconds",
                                 options.fetches ? "pages/s" : "answers/s",
                                 options.fetches ? "longest fetch" : "longest gap", "killed",
                                 options.fetches ? "not ready" : "without view");
  std::vector<EpochPhase> phases = result.phases;
  phases.insert(phases.begin(), result.quiet);
  for (const EpochPhase& phase : phases) {
    text += fmt::format("{:<18} {:>10.3f} {:>12.0f} {:>11.2f} ms {:>12} {:>14}\n", phase.what,
                        phase.seconds, phase.per_s, phase.longest_ms, phase.killed, phase.missed);
  }
  return text + fmt::format("the slowest of the epochs: {:.3f} x as fast as without\n",
                            result.least_throughput());
}

}  // namespace farpage
