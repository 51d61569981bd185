#include "lab/analyse/measures/steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/lab/analyse/traces.h"

namespace farpage::analyse {
namespace {

using testing::ElementsAre;

TEST(Steps, AreNumberedFromZeroWhateverTheTraceCallsThem) {
  SignalTrace made;
  for (const uint64_t step : {7, 7, 9, 100, 100}) made.add(step, 0, 0);
  const auto trace = made.with({});
  const auto parts = parts_of(trace);
  ASSERT_EQ(parts->steps(), 3u);
  std::vector<uint64_t> indices;
  std::vector<size_t> accesses;
  ASSERT_TRUE(for_each_step(trace, *parts, [&](const Step& step, const Ahead&) {
    indices.push_back(step.index);
    accesses.push_back(step.accesses.size());
  }));
  EXPECT_THAT(indices, ElementsAre(0, 1, 2));
  EXPECT_THAT(accesses, ElementsAre(2, 1, 2));
}
TEST(Steps, NameEachPageOnce) {
  std::vector<std::vector<prefetch::PageNumber>> pages;
  ASSERT_TRUE(for_each_step(trace_of({{0, 1, 0}, {1, 1}}), Parts(2),
                            [&](const Step& step, const Ahead&) { pages.push_back(step.pages); }));
  EXPECT_THAT(pages, ElementsAre(ElementsAre(0, 1), ElementsAre(1)));
}
TEST(Steps, AreSeenWithTenAheadAndFewerAtTheEnd) {
  Steps steps;
  for (prefetch::PageNumber i = 0; i < 30; ++i) steps.push_back({i});
  uint64_t seen = 0;
  ASSERT_TRUE(for_each_step(trace_of(steps), Parts(30), [&](const Step& step, const Ahead& ahead) {
    EXPECT_EQ(step.index, seen);
    EXPECT_EQ(ahead.size(), std::min<uint64_t>(10, 29 - seen));
    for (size_t i = 0; i < ahead.size(); ++i) {
      EXPECT_THAT(ahead[i].pages, ElementsAre(step.index + 1 + i));
    }
    ++seen;
  }));
  EXPECT_EQ(seen, 30u);
}

}  // namespace
}  // namespace farpage::analyse
