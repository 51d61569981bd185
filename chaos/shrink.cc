#include "chaos/shrink.h"

#include <algorithm>

namespace farpage::chaos {
namespace {

Plan without(const Plan& plan, size_t first, size_t count) {
  Plan shorter = plan;
  const auto from = shorter.actions.begin() + static_cast<ptrdiff_t>(first);
  shorter.actions.erase(from, from + static_cast<ptrdiff_t>(count));
  return shorter;
}

}  // namespace

Plan shrink(const Plan& plan, const std::function<bool(const Plan&)>& fails, size_t most_runs) {
  Plan shortest = plan;
  size_t runs = 0;
  for (size_t chunk = std::max<size_t>(1, plan.actions.size() / 2); runs < most_runs;) {
    const size_t before = shortest.actions.size();
    // From the end: what comes last is needed least.
    for (size_t at = before; at > 0 && runs < most_runs;) {
      const size_t first = at > chunk ? at - chunk : 0;
      const Plan shorter = without(shortest, first, at - first);
      ++runs;
      if (fails(shorter)) shortest = shorter;
      at = first;
    }
    if (chunk == 1 && shortest.actions.size() == before) break;
    chunk = std::max<size_t>(1, chunk / 2);
  }
  return shortest;
}

}  // namespace farpage::chaos
