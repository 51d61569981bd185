#include "lab/analyse/measures/ranked_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/lab/analyse/traces.h"

namespace farpage::analyse {
namespace {

using prefetch::Signal;
using testing::ElementsAre;
using testing::FloatEq;

std::vector<float> masses_of(const paging::AccessTrace& trace) {
  std::vector<float> masses;
  EXPECT_TRUE(for_each_access(
      trace, [&](const prefetch::Access& access) { masses.push_back(access.mass); }));
  return masses;
}

TEST(RankedTrace, WeighsAHeadsPagesByTheirOrderInAStep) {
  SignalTrace made;
  made.add(0, 0, 0.9F, 0, -5);
  made.add(0, 1, 0.1F, 0, 1000);
  made.add(0, 2, 0.5F, 1, 3);  // the only one of its head
  made.add(0, 3, 0.2F, 0, -5);
  made.add(1, 0, 0.1F, 0, 7);
  made.add(1, 1, 0.2F, 0, 8);
  const auto trace = made.with({Signal::kMass, Signal::kScore});
  // Ranks 3, 1, 1, 2 of 6; then 1 and 2 of 3.
  EXPECT_THAT(masses_of(ranked_by(trace, Signal::kMass)),
              ElementsAre(FloatEq(3.0F / 6), FloatEq(1.0F / 6), FloatEq(1), FloatEq(2.0F / 6),
                          FloatEq(1.0F / 3), FloatEq(2.0F / 3)));
  // Equal ones share ranks 1 and 2.
  EXPECT_THAT(masses_of(ranked_by(trace, Signal::kScore)),
              ElementsAre(FloatEq(1.5F / 6), FloatEq(3.0F / 6), FloatEq(1), FloatEq(1.5F / 6),
                          FloatEq(1.0F / 3), FloatEq(2.0F / 3)));
}
TEST(RankedTrace, HasTheSameAccessesOfStepsOfAnyLength) {
  SignalTrace made;
  for (uint64_t step = 0; step < 5; ++step) {
    for (prefetch::PageNumber page = 0; page < 1 + 900 * step; ++page) made.add(step, page, 0.5F);
  }
  const auto trace = made.with({Signal::kMass});
  const auto ranked = ranked_by(trace, Signal::kMass);
  uint64_t accesses = 0;
  double mass = 0;
  ASSERT_TRUE(for_each_access(ranked, [&](const prefetch::Access& access) {
    EXPECT_EQ(access.number, accesses);
    ++accesses;
    mass += static_cast<double>(access.mass);
  }));
  EXPECT_EQ(accesses, trace.accesses);
  EXPECT_NEAR(mass, 5, 1e-3);  // 1 in each step
}

}  // namespace
}  // namespace farpage::analyse
