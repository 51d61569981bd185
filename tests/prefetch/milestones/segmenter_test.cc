#include "prefetch/milestones/segmenter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace farpage::prefetch {
namespace {

using testing::ElementsAre;

class SegmenterTest : public testing::Test {
 protected:
  // A step that demands these pages; of its token the rest.
  void step(const std::vector<PageNumber>& pages, float entropy = 0, Mark mark = Mark::kNone) {
    std::vector<Access> accesses;
    for (const PageNumber page : pages) {
      Access access = {number_++, steps_, page};
      access.entropy = entropy;
      access.mark = mark;
      accesses.push_back(access);
    }
    segmenter_.on_step(accesses);
    if (segmenter_.segment() != segment_) begins_.push_back(steps_);
    segment_ = segmenter_.segment();
    ++steps_;
  }
  // Steps alike, up to this one.
  void go_on_to(uint64_t step_number, float entropy = 0.5F) {
    while (steps_ < step_number) {
      step({0, 1, 2, 3, 4, 5, 6, 7}, entropy + (steps_ % 2 == 0 ? 0.1F : -0.1F));
    }
  }

  Segmenter segmenter_;
  uint64_t number_ = 0;
  uint64_t steps_ = 0;
  uint32_t segment_ = 0;
  std::vector<uint64_t> begins_;
};

TEST_F(SegmenterTest, BeginsWhereTheEngineSaysSoAndNowhereElse) {
  go_on_to(100);
  step({0, 1, 2, 3, 4, 5, 6, 7}, 0.5F, Mark::kBegins);
  go_on_to(103);
  step({0, 1, 2, 3, 4, 5, 6, 7}, 0.5F, Mark::kVerifies);
  EXPECT_EQ(segmenter_.phase(), Mark::kVerifies);
  go_on_to(150);
  step({10, 11, 12, 13, 14, 15, 16, 17}, 9);
  EXPECT_THAT(begins_, ElementsAre(100, 103));
  EXPECT_EQ(segmenter_.phase(), Mark::kVerifies);
  EXPECT_EQ(segmenter_.steps_since_begin(), 47U);
}
TEST_F(SegmenterTest, WithoutMarksBeginsWhereATokenIsFarLessCertain) {
  go_on_to(100);
  step({0, 1, 2, 3, 4, 5, 6, 7}, 4);
  go_on_to(150);
  EXPECT_THAT(begins_, ElementsAre(100));
}
TEST_F(SegmenterTest, WithoutMarksBeginsWhereAttentionTurnsElsewhere) {
  go_on_to(100);
  step({0, 1, 10, 11, 12, 13, 14, 15}, 0.5F);
  EXPECT_THAT(begins_, ElementsAre(100));
}
TEST_F(SegmenterTest, HasEightStepsAtLeastUnlessItIsMarked) {
  go_on_to(100);
  step({0, 1, 10, 11, 12, 13, 14, 15}, 4);
  go_on_to(104);
  step({20, 21, 22, 23, 24, 25, 26, 27}, 40);
  EXPECT_THAT(begins_, ElementsAre(100));
  step({0, 1, 2, 3, 4, 5, 6, 7}, 0.5F, Mark::kConcludes);
  EXPECT_THAT(begins_, ElementsAre(100, 105));
  EXPECT_EQ(segmenter_.phase(), Mark::kConcludes);
}
TEST_F(SegmenterTest, WhereNothingEverChangesItIsOne) {
  for (int i = 0; i < 1'000; ++i) step({0, 1, 2});
  EXPECT_THAT(begins_, ElementsAre());
}
TEST_F(SegmenterTest, PagesThatHaveANumberOfOthersAreNew) {
  const std::vector<PageNumber> all = {0, 1, 2, 3, 4, 5, 6, 7};
  go_on_to(100);
  for (const PageNumber page : all) segmenter_.on_forget(page);
  step(all);
  EXPECT_THAT(begins_, ElementsAre(100));
}

}  // namespace
}  // namespace farpage::prefetch
