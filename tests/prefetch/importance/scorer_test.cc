#include "prefetch/importance/scorer.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "prefetch/policies/policies.h"
#include "prefetch/registry/registry.h"

namespace farpage::prefetch {
namespace {

// The resident pages, in the order in which they came.
class Residents {
 public:
  bool contains(PageNumber page) const { return std::ranges::count(pages_, page) > 0; }
  size_t size() const { return pages_.size(); }
  void insert(PageNumber page) { pages_.push_back(page); }
  void erase(PageNumber page) { std::erase(pages_, page); }
  PageNumber lowest(const Scorer& scorer, uint64_t step) const {
    return *std::ranges::min_element(pages_, {},
                                     [&](PageNumber page) { return scorer.score(page, step); });
  }

 private:
  std::vector<PageNumber> pages_;
};

// The policy must name what a look at every resident page would.
void expect_named_as_scanned(Policy& policy, Scorer& scorer, uint64_t seed) {
  Random random(seed);
  Residents residents;
  const size_t budget = 1 + random.below(12);
  uint64_t step = 0;
  for (uint64_t number = 0; number < 400; ++number) {
    step += random.below(3);
    const auto any = static_cast<PageNumber>(random.below(30));
    const Access access = {number, step, random.below(2) == 0 ? any % 5 : any};
    policy.on_access(access);
    scorer.on_access(access);
    if (residents.contains(access.page)) continue;
    if (residents.size() == budget) {
      const PageNumber victim = policy.victim(step);
      RC_ASSERT(victim == residents.lowest(scorer, step));
      residents.erase(victim);
      policy.on_evict(victim, step);
      scorer.on_evict(victim, step);
    }
    residents.insert(access.page);
    policy.on_insert(access.page, step);
    scorer.on_insert(access.page, step);
  }
}

Setting setting_with_sizes() {
  Setting setting;
  setting.page_bytes = [](PageNumber page) { return uint64_t{500} + 700 * (page % 4); };
  return setting;
}

template <typename Made>
void compare(std::unique_ptr<Made> (*make)(const Setting&, Values), const PolicyInfo& info,
             uint64_t seed) {
  std::vector<double> values;
  for (const Parameter& parameter : info.parameters) values.push_back(parameter.unset);
  if (info.name == "windowed_recency") values[0] = 7;
  const Setting setting = setting_with_sizes();
  const auto scorer = make(setting, values);
  const auto policy = info.make(setting, values);
  expect_named_as_scanned(*policy, *scorer, seed);
}

RC_GTEST_PROP(ScorerProperty, HeavyHitterNamesTheLowest, (uint32_t seed)) {
  compare(heavy_hitter_scorer, heavy_hitter(), seed);
}
RC_GTEST_PROP(ScorerProperty, PredictiveNamesTheLowest, (uint32_t seed)) {
  compare(predictive_scorer, predictive(), seed);
}
RC_GTEST_PROP(ScorerProperty, WindowedRecencyNamesTheLowest, (uint32_t seed)) {
  compare(windowed_recency_scorer, windowed_recency(), seed);
}
RC_GTEST_PROP(ScorerProperty, CostAwareNamesTheLowest, (uint32_t seed)) {
  compare(cost_aware_scorer, cost_aware(), seed);
}
RC_GTEST_PROP(ScorerProperty, RegretAwareNamesTheLowest, (uint32_t seed)) {
  compare(regret_aware_scorer, regret_aware(), seed);
}
// Two pages whose weights add up to the same, and whose scores differ in the last bit.
TEST(Scorer, ScoresThatDifferInTheirLastBitAreToldApart) {
  compare(regret_aware_scorer, regret_aware(), 3'079'814);
}

// An access leaves the sum of a page's parts what it was, 6.25 + 6.25 and then 12.5 + 0: added up
// with its age it is less in the last bit.
TEST(Scorer, PartsThatAddUpToWhatTheyDidAreAddedUpAnew) {
  const auto policy = choose_policy("regret_aware:frequency=6.25:regret=6:decay=0")->make({});
  uint64_t number = 0;
  for (const PageNumber page : {0U, 1U}) {
    policy->on_insert(page, 2);
    policy->on_evict(page, 2);
    policy->on_access({number++, 2, page});
    policy->on_insert(page, 2);
  }
  policy->on_access({number++, 2, 1});
  EXPECT_EQ(policy->victim(3), 1U);
}

}  // namespace
}  // namespace farpage::prefetch
