#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "sim/fault/fault_plan.h"
#include "sim/network/sim_options.h"

namespace farpage::sim {

// Chances of a network's ills, and how bad they may be.
struct NetworkOdds {
  double slow = 0.15;  // that reads take about as long as slots cool
  double loses = 0.4;
  double loss_max = 0.02;
  double tears = 0.7;
  double fails = 0.2;
  double failing = 0.003;
};

// By kind, the highest chance that a fault meets an operation; 0: never. Faults that end a path are
// rare: nothing else can happen to a path once it has ended.
using FaultOdds = std::array<double, fault::kFaultKinds>;
constexpr FaultOdds any_faults(double usual = 0.25) {
  FaultOdds odds{};
  odds.fill(usual);
  odds[static_cast<size_t>(fault::FaultKind::kFlippedAtRest)] =
      0;  // only when somebody asks for it
  odds[static_cast<size_t>(fault::FaultKind::kLost)] = 0.02;
  odds[static_cast<size_t>(fault::FaultKind::kFailed)] = 0.02;
  return odds;
}

// What a history of a simulated cluster is drawn from: the same seed and the same calls draw the
// same, whatever the cluster's own world draws meanwhile.
class Draws {
 public:
  explicit Draws(uint64_t seed) : random_(seed) {}

  uint64_t next() { return random_.next(); }
  double unit() { return random_.unit(); }
  uint64_t below(uint64_t bound) { return random_.below(bound); }
  uint64_t between(uint64_t least, uint64_t most) { return least + below(most - least + 1); }
  bool chance(double probability) { return random_.unit() < probability; }
  std::vector<uint64_t> numbers(uint64_t count, uint64_t bound) {
    std::vector<uint64_t> numbers(count);
    for (uint64_t& number : numbers) number = below(bound);
    return numbers;
  }

  // A tenth are over before they begin, or hardly later; the others have up to 30 ms.
  uint64_t patience_ns() {
    if (chance(0.1)) return below(20) * kMicrosecond;
    return chance(0.5) ? between(20 * kMicrosecond, 2 * kMillisecond)
                       : between(kMillisecond, 30 * kMillisecond);
  }

  // `reuse_ns`: how long slots cool.
  SimOptions network(uint64_t reuse_ns, const NetworkOdds& odds = {}) {
    SimOptions network;
    network.delay_max_ns =
        chance(odds.slow) ? between(reuse_ns / 4, 2 * reuse_ns) : between(5, 100) * kMicrosecond;
    network.late_max_ns = between(1, 20) * kMillisecond;
    if (chance(odds.loses)) network.loss = odds.loss_max * unit();
    if (chance(0.5)) network.reorder = 0.5;
    if (chance(odds.tears)) network.tear = 0.7;
    if (chance(odds.fails)) network.fail = odds.failing;
    if (chance(0.3)) network.offload_max_ns = between(1, 40) * kMillisecond;
    return network;
  }

  // Up to four kinds.
  fault::FaultPlan faults(const FaultOdds& odds = any_faults()) {
    fault::FaultPlan plan;
    plan.late_max_ns = between(1, 20) * kMillisecond;
    plan.reorder_max_ns = between(1, 500) * kMicrosecond;
    for (uint64_t kinds = below(5); kinds > 0; --kinds) {
      const size_t kind = below(fault::kFaultKinds);
      if (odds[kind] > 0) plan.chance[kind] = odds[kind] * unit();
    }
    if (chance(0.05)) plan.delay_ns = below(kMillisecond);
    if (chance(0.05)) plan.bytes_per_s = between(1'000'000, 100'000'000);
    return plan;
  }

 private:
  Random random_;
};

}  // namespace farpage::sim
