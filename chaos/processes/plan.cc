#include "chaos/processes/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/random.h"

namespace farpage::processes {
namespace {

constexpr uint64_t kRound = 20;  // disturbances
constexpr uint64_t kLongestGapMs = 1'600;
constexpr uint64_t kShortMs = 300;   // less than any lease
constexpr uint64_t kLongMs = 4'000;  // more than any

// Targets that may suffer one disturbance at a time.
enum class Part : uint8_t { kProcess, kCable };
using Victim = std::pair<size_t, Part>;

Victim victim(const Disturbance& disturbance, size_t etcd) {
  return {is_of_etcd(disturbance.kind) ? etcd : disturbance.node,
          is_of_network(disturbance.kind) ? Part::kCable : Part::kProcess};
}

}  // namespace

std::string describe(const Disturbance& disturbance) {
  const std::string_view kind = kKindNames[static_cast<size_t>(disturbance.kind)];
  const double seconds = static_cast<double>(disturbance.for_ms) / 1e3;
  if (is_of_etcd(disturbance.kind)) return fmt::format("{} for {:.3f} s", kind, seconds);
  return fmt::format("node n{} {} for {:.3f} s", disturbance.node, kind, seconds);
}

std::vector<Round> draw_plan(const PlanOptions& options) {
  Random random(options.seed);
  std::vector<Kind> kinds;
  for (size_t kind = 0; kind < kKinds; ++kind) {
    if (options.kinds[kind]) kinds.push_back(static_cast<Kind>(kind));
  }
  const uint64_t longest_ms = kLongMs * slowness(options.nodes);
  std::vector<Round> rounds;
  for (uint64_t drawn = 0; drawn < options.disturbances && !kinds.empty();) {
    Round& round = rounds.emplace_back();
    const bool has_one_victim = rounds.size() % 2 == 1;
    const size_t only = random.below(options.nodes);
    std::map<Victim, uint64_t> free_from_ms;
    uint64_t now_ms = 0;
    for (; round.size() < kRound && drawn < options.disturbances; ++drawn) {
      Disturbance next;
      next.kind = kinds[random.below(kinds.size())];
      const size_t any = random.below(options.nodes);
      next.node = has_one_victim ? only : any;
      next.for_ms = 1 + random.below(random.below(3) == 0 ? longest_ms : kShortMs);
      now_ms += random.below(kLongestGapMs);
      uint64_t& free_ms = free_from_ms[victim(next, options.nodes)];
      next.at_ms = std::max(now_ms, free_ms);
      now_ms = next.at_ms;
      free_ms = next.at_ms + next.for_ms + kShortMs;
      round.push_back(next);
    }
  }
  return rounds;
}

}  // namespace farpage::processes
