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
  void add(PageNumber page, uint64_t due_step) { samples_.add({page, 0.5F, due_step, {page}}); }
  std::vector<PageNumber> accessed(PageNumber page) {
    std::vector<PageNumber> heard;
    samples_.on_access(page, [&](const auto& sample) { heard.push_back(sample.features[0]); });
    return heard;
  }
  std::vector<PageNumber> over_before(uint64_t step) {
    std::vector<PageNumber> heard;
    samples_.on_step(step, [&](const auto& sample) { heard.push_back(sample.features[0]); });
    return heard;
  }

  PendingSamples<1> samples_{3};
};

TEST_F(PendingSamplesTest, AreHeardOfOnceWhenTheirPageIsAccessed) {
  add(4, 10);
  EXPECT_THAT(accessed(5), IsEmpty());
  EXPECT_THAT(accessed(4), ElementsAre(4));
  EXPECT_THAT(accessed(4), IsEmpty());
  EXPECT_THAT(over_before(100), IsEmpty());
}
TEST_F(PendingSamplesTest, AreHeardOfWhenTheirTimeIsOver) {
  add(4, 10);
  add(5, 11);
  EXPECT_THAT(over_before(10), IsEmpty());
  EXPECT_THAT(over_before(11), ElementsAre(4));
  EXPECT_THAT(accessed(5), ElementsAre(5));
  EXPECT_THAT(over_before(100), IsEmpty());
}
TEST_F(PendingSamplesTest, OfAPageThereIsOne) {
  add(4, 10);
  add(4, 11);
  EXPECT_THAT(over_before(100), ElementsAre(4));
  add(4, 110);
  EXPECT_THAT(accessed(4), ElementsAre(4));
}
TEST_F(PendingSamplesTest, NoMoreAreTakenThanThereIsRoomForAndTheyAreCounted) {
  for (PageNumber page = 0; page < 5; ++page) add(page, 10);
  EXPECT_EQ(samples_.dropped(), 2U);
  EXPECT_THAT(over_before(11), ElementsAre(0, 1, 2));
  add(7, 20);  // and there is room again
  EXPECT_THAT(over_before(21), ElementsAre(7));
}

}  // namespace
}  // namespace farpage::prefetch
