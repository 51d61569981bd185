#include "prefetch/milestones/pending_samples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace farpage::prefetch {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class PendingSamplesTest : public testing::Test {
 protected:
  void add(PageNumber page, uint64_t due_step) {
    samples_.add({page, 0.5F, due_step, {static_cast<uint16_t>(page)}});
  }
  // Their places: of those that came, and of those that did not, 100 more.
  std::vector<PageNumber> over_before(uint64_t step) {
    std::vector<PageNumber> heard;
    samples_.on_step(step, [&](const auto& sample, bool has_come) {
      heard.push_back(sample.places[0] + (has_come ? 0 : 100));
    });
    return heard;
  }

  PendingSamples<1> samples_{3};
};

TEST_F(PendingSamplesTest, AreHeardOfWhenTheirTimeIsOverWhetherTheirPageCameOrNot) {
  add(4, 10);
  add(5, 11);
  samples_.on_access(4);
  samples_.on_access(9);
  EXPECT_THAT(over_before(10), IsEmpty());
  EXPECT_THAT(over_before(11), ElementsAre(4));
  EXPECT_THAT(over_before(100), ElementsAre(105));
  EXPECT_THAT(over_before(200), IsEmpty());
}
TEST_F(PendingSamplesTest, AllThatWaitForAPageHaveComeWithIt) {
  add(4, 10);
  add(5, 11);
  add(4, 12);
  samples_.on_access(4);
  EXPECT_THAT(over_before(100), ElementsAre(4, 105, 4));
  add(4, 110);
  EXPECT_THAT(over_before(111), ElementsAre(104));
}
TEST_F(PendingSamplesTest, WhatTookThePlaceOfAPagesEarlierOneIsNotTakenForIt) {
  add(4, 10);
  add(5, 10);
  add(6, 10);
  over_before(11);
  add(7, 20);
  add(8, 20);
  samples_.on_access(4);
  EXPECT_THAT(over_before(21), ElementsAre(107, 108));
}
TEST_F(PendingSamplesTest, NoMoreAreTakenThanThereIsRoomForAndTheyAreCounted) {
  for (PageNumber page = 0; page < 5; ++page) add(page, 10);
  EXPECT_EQ(samples_.dropped(), 2U);
  EXPECT_THAT(over_before(11), ElementsAre(100, 101, 102));
  add(7, 20);  // and there is room again
  EXPECT_THAT(over_before(21), ElementsAre(107));
}
TEST_F(PendingSamplesTest, WhatWaitsForANumberThatIsUsedAgainDoesNotCome) {
  add(4, 10);
  samples_.on_forget(4);
  add(4, 12);
  samples_.on_access(4);
  EXPECT_THAT(over_before(100), ElementsAre(104, 4));
}

}  // namespace
}  // namespace farpage::prefetch
