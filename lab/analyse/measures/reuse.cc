#include "lab/analyse/measures/reuse.h"

namespace farpage::analyse {
namespace {

constexpr uint64_t kNearSteps = 10;  // a gap that recency bridges

void count(Share& share, bool is_counted) {
  share[0] += is_counted ? 1 : 0;
  share[1] += 1;
}

}  // namespace

using prefetch::PageNumber;

void Reuse::step(const Step& step) {
  for (const PageNumber page : step.pages) use(page, step);
}

void Reuse::use(PageNumber page, const Step& step) {
  Uses& uses = uses_.at(page);
  const bool is_known = uses.count > 0;
  const bool is_persistent = is_known && uses.last + 1 == step.index;
  count(persistent_[step.part], is_persistent);
  count(reentered_[step.part], is_known && !is_persistent);
  count(fresh_[step.part], !is_known);
  if (const auto rank = recency_.rank(page)) distances_.add(static_cast<double>(*rank + 1));
  if (is_known && step.index - uses.last <= kNearSteps) ++uses.near_gaps;
  if (!is_known) uses.first = step.index;
  uses.last = step.index;
  ++uses.count;
  recency_.use(page);
}

PageClass Reuse::class_of(PageNumber page) const {
  const Uses& uses = uses_[page];
  if (uses.count <= 1) return PageClass::kOneShot;
  if (2 * uses.count >= uses.last - uses.first + 1) return PageClass::kPersistent;
  return 2 * uses.near_gaps >= uses.count - 1 ? PageClass::kRecency : PageClass::kMilestone;
}

uint64_t Reuse::distance(double quantile) const {
  // Counted from 1, as the histogram does.
  const auto upper = static_cast<uint64_t>(distances_.quantile(quantile));
  return upper > 0 ? upper - 1 : 0;
}

}  // namespace farpage::analyse
