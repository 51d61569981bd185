#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "prefetch/prefetchers/prefetchers.h"
#include "prefetch/registry/registry.h"

namespace farpage::prefetch {
namespace {

using testing::Contains;
using testing::IsEmpty;
using testing::IsSupersetOf;
using testing::Not;
using testing::UnorderedElementsAre;

// One layer of four heads, which write 64 blocks, eight to a segment: page 4 * block + head. Each
// step demands the newest; what else is told.
class MilestonePrefetchersTest : public testing::Test {
 protected:
  static constexpr PageNumber kBlocks = 64;

  void begin(const std::string& name) {
    chosen_ = *choose_prefetcher(name);
    Setting setting;
    setting.layout = {1, 4};
    setting.budget_pages = budget_pages_;
    prefetcher_ = chosen_.make(setting);
    for (PageNumber block = 0; block < kBlocks; ++block) {
      mark_ = block % 8 == 0 ? Mark::kBegins : Mark::kNone;
      std::vector<PageNumber> written;
      for (PageNumber head = 0; head < 4; ++head) written.push_back(4 * block + head);
      for (int token = 0; token < 4; ++token) step(written), mark_ = Mark::kNone;
    }
  }
  std::set<PageNumber> step(std::vector<PageNumber> pages) {
    for (PageNumber head = 0; head < 4 && step_ >= 4 * kBlocks; ++head) {
      pages.push_back(4 * (kBlocks - 1) + head);
    }
    for (const PageNumber page : pages) {
      Access access = {number_++, step_, page};
      access.head = page % 4;
      access.mark = mark_;
      prefetcher_->on_access(access);
    }
    ++step_;
    std::vector<PageNumber> named(64);
    named.resize(prefetcher_->candidates(named));
    EXPECT_EQ(std::set(named.begin(), named.end()).size(), named.size());
    return {named.begin(), named.end()};
  }
  void forget(const std::vector<PageNumber>& pages) {
    for (const PageNumber page : pages) prefetcher_->on_forget(page);
  }
  void go_on(int steps) {
    for (int i = 0; i < steps; ++i) step({});
  }
  // A page of head 0 comes back, three steps later the same block in the other heads, and never
  // the rest of its segment.
  void teach(int returns) {
    Random random(1);
    for (int i = 0; i < returns; ++i) {
      const auto block = static_cast<PageNumber>(random.below(kBlocks - 8));
      step({4 * block});
      go_on(2);
      step({4 * block + 1, 4 * block + 2, 4 * block + 3});
      go_on(20);
    }
  }

  ChosenPrefetcher chosen_;
  std::unique_ptr<Prefetcher> prefetcher_;
  uint64_t budget_pages_ = 0;  // nothing is known of the memory
  uint64_t number_ = 0;
  uint64_t step_ = 0;
  Mark mark_ = Mark::kNone;
};

TEST_F(MilestonePrefetchersTest, MilestoneNamesWhatBelongsWithWhatCameBack) {
  begin("milestone");
  const auto named = step({4 * 17});
  EXPECT_THAT(named, IsSupersetOf({69U, 70U, 71U}));                      // other heads
  EXPECT_THAT(named, IsSupersetOf({64U, 72U, 76U, 80U, 84U, 88U, 92U}));  // its segment
  EXPECT_EQ(named.size(), 10U);
  go_on(8);
  EXPECT_THAT(step({}), Contains(69U));  // ten steps
  EXPECT_THAT(step({}), IsEmpty());
}
TEST_F(MilestonePrefetchersTest, MilestoneTakesNoShortAbsenceForAReturn) {
  begin("milestone:away=40");
  go_on(40);
  EXPECT_THAT(step({4 * 62}), Not(IsEmpty()));  // away for more than forty
  begin("milestone:away=1000");
  go_on(40);
  EXPECT_THAT(step({4 * 62}), IsEmpty());
}
TEST_F(MilestonePrefetchersTest, MilestoneNamesFirstWhatMostOfThemBelongWith) {
  begin("milestone");
  for (const PageNumber page : {4 * 17 + 0, 4 * 17 + 1, 4 * 40}) {
    Access access = {number_++, step_, page};
    access.head = page % 4;
    prefetcher_->on_access(access);
  }
  std::vector<PageNumber> named(4);
  ASSERT_EQ(prefetcher_->candidates(named), 4U);
  // Two came back of block 17: the other two of it belong with both, as each with the other.
  EXPECT_THAT(named,
              UnorderedElementsAre(70U, 71U, testing::AnyOf(64U, 65U, 68U, 69U), testing::_));
}
TEST_F(MilestonePrefetchersTest, MilestoneTakesTheEnginesWordForAMilestone) {
  begin("milestone:away=1000");
  prefetcher_->on_milestone(4 * 17);
  prefetcher_->on_milestone(3'000'000'000U);
  EXPECT_THAT(step({4 * 17}), Contains(69U));
  EXPECT_THAT(step({4 * 30}), Not(Contains(4 * 30 + 1)));
}
TEST_F(MilestonePrefetchersTest, MilestoneNamesNothingMoreWhereNothingComesOfIt) {
  begin("milestone");
  EXPECT_THAT(step({4 * 17}), Not(IsEmpty()));
  go_on(20);  // and nothing of it came
  EXPECT_THAT(step({4 * 30}), IsEmpty());
}
TEST_F(MilestonePrefetchersTest, NothingIsNamedOfWhatCameBackAndWasNear) {
  for (const char* name : {"milestone", "learned:least=0"}) {
    begin(name);
    for (PageNumber page = 0; page < 4 * kBlocks; page += 4) prefetcher_->on_insert(page);
    go_on(1);
    step({4 * 17});
    go_on(20);
    EXPECT_THAT(step({4 * 17}), IsEmpty()) << name;
  }
}
TEST_F(MilestonePrefetchersTest, APhaseHasItsShareOfWhatMayBeAskedFor) {
  for (const std::string name : {"milestone", "learned:least=0"}) {
    const auto named_in = [&](Mark phase) {
      begin(name + ":verify=0.0625:conclude=0");
      mark_ = phase;
      const size_t named = step({4 * 17}).size();
      mark_ = Mark::kNone;
      return named;
    };
    EXPECT_EQ(named_in(Mark::kBegins), 10u) << name;
    EXPECT_EQ(named_in(Mark::kExplores), 10u) << name;
    EXPECT_EQ(named_in(Mark::kVerifies), 4u) << name;  // of 64 that may be
    EXPECT_EQ(named_in(Mark::kConcludes), 0u) << name;
  }
}
// A loop through all segments, twice each, which lru never hits, and then what it would.
TEST_F(MilestonePrefetchersTest, WhoLosesWhatWouldHaveBeenNearNamesNothing) {
  for (const char* name : {"milestone", "learned:least=0"}) {
    budget_pages_ = 4 * kBlocks - 8;
    begin(name);
    EXPECT_THAT(step({4 * 17}), IsEmpty()) << name;  // what there is to lose is not known yet
    for (int i = 0; i < 6; ++i) {
      for (PageNumber first = 0; first < 4 * kBlocks; first += 32) {
        std::vector<PageNumber> segment(32);
        std::iota(segment.begin(), segment.end(), first);
        step(segment);
        step(segment);
      }
    }
    go_on(20);
    EXPECT_THAT(step({4 * 17}), Not(IsEmpty())) << name;
    go_on(20);
    for (int i = 0; i < 500; ++i) prefetcher_->on_miss(4 * 17);
    EXPECT_THAT(step({4 * 25}), IsEmpty()) << name;
  }
}
TEST_F(MilestonePrefetchersTest, LearnedLearnsWhatAMarkIsWorth) {
  begin("learned");
  Random random(3);
  for (int i = 0; i < 600; ++i) {
    const auto block = static_cast<PageNumber>(random.below(kBlocks - 8));
    const bool is_marked = block % 2 == 0;
    if (is_marked) prefetcher_->on_milestone(4 * block);
    step({4 * block});
    go_on(2);
    step(is_marked ? std::vector<PageNumber>{4 * block + 1, 4 * block + 2, 4 * block + 3}
                   : std::vector<PageNumber>());
    go_on(20);
  }
  EXPECT_THAT(step({4 * 16}), UnorderedElementsAre(65U, 66U, 67U));
  go_on(20);
  EXPECT_THAT(step({4 * 17}), IsEmpty());
}
TEST_F(MilestonePrefetchersTest, LearnedNamesNothingBeforeItKnowsAnything) {
  begin("learned");
  EXPECT_THAT(step({4 * 17}), IsEmpty());
}
TEST_F(MilestonePrefetchersTest, LearnedNamesWhatFollowsAndNotWhatOnlyBelongs) {
  begin("learned");
  teach(400);
  EXPECT_THAT(step({4 * 17}), UnorderedElementsAre(69U, 70U, 71U));
}
TEST_F(MilestonePrefetchersTest, LearnedNamesNothingThatIsNear) {
  begin("learned");
  teach(400);
  prefetcher_->on_insert(70);
  EXPECT_THAT(step({4 * 17}), UnorderedElementsAre(69U, 71U));
  prefetcher_->on_evict(70);
  EXPECT_THAT(step({}), UnorderedElementsAre(69U, 70U, 71U));
}
TEST_F(MilestonePrefetchersTest, LearnedNamesTheLikeliestFirst) {
  begin("learned:least=0.01");
  teach(400);
  Access access = {number_++, step_, 4 * 17};
  prefetcher_->on_access(access);
  std::vector<PageNumber> named(3);
  ASSERT_EQ(prefetcher_->candidates(named), 3U);
  EXPECT_THAT(named, UnorderedElementsAre(69U, 70U, 71U));  // of ten
}
TEST_F(MilestonePrefetchersTest, LearnedIsJudgedByWhatItForetold) {
  begin("learned");
  EXPECT_EQ(prefetcher_->score()->samples, 0U);
  teach(400);
  const ForesightScore score = *prefetcher_->score();
  // Three come. The seven others of its segment in each head do not, nor do the four of the block
  // once more after the three came.
  EXPECT_NEAR(score.base_rate, 3.0 / (3 + 4 * 7 + 4), 0.002);
  EXPECT_GT(score.pr_auc, 0.9);
  EXPECT_LT(score.calibration_error, 0.1);
}
TEST_F(MilestonePrefetchersTest, LearnedForgetsWhatFollowsNoMore) {
  begin("learned");
  teach(200);
  Random random(2);
  for (int i = 0; i < 1'000; ++i) {
    step({4 * static_cast<PageNumber>(random.below(kBlocks - 8))});
    go_on(20);
  }
  EXPECT_THAT(step({4 * 17}), IsEmpty());
}
TEST_F(MilestonePrefetchersTest, ANumberThatIsUsedAgainIsANewPage) {
  for (const char* name : {"milestone", "learned:least=0"}) {
    begin(name);
    forget({68, 72, 70, 64});
    // Its first access is no return, and its other blocks are not those of the page before.
    EXPECT_THAT(step({68}), IsEmpty()) << name;
    EXPECT_THAT(step({69}), UnorderedElementsAre(65U, 71U, 73U, 77U, 81U, 85U, 89U, 93U)) << name;
    go_on(30);
    EXPECT_THAT(step({68}), Not(Contains(69U))) << name;  // whose block is another
  }
}
TEST_F(MilestonePrefetchersTest, WhatIsExpectedIsExpectedOfItsPageAlone) {
  for (const char* name : {"milestone", "learned:least=0"}) {
    begin(name);
    ASSERT_THAT(step({68}), IsSupersetOf({69U, 70U})) << name;
    forget({69});
    EXPECT_THAT(step({}), testing::AllOf(Contains(70U), Not(Contains(69U)))) << name;
    EXPECT_THAT(step({69}), testing::AllOf(Contains(70U), Not(Contains(69U)))) << name;
  }
}
TEST_F(MilestonePrefetchersTest, ANumberThatIsUsedAgainIsNotNear) {
  for (const char* name : {"milestone", "learned:least=0"}) {
    begin(name);
    prefetcher_->on_insert(4 * 17);
    forget({4 * 17});
    step({4 * 17});
    go_on(30);
    EXPECT_THAT(step({4 * 17}), Not(IsEmpty())) << name;
  }
}
TEST_F(MilestonePrefetchersTest, AMarkIsOfItsPageAlone) {
  begin("milestone:away=1000");
  prefetcher_->on_milestone(4 * 17);
  forget({4 * 17});
  step({4 * 17});
  go_on(30);
  EXPECT_THAT(step({4 * 17}), IsEmpty());
}
// The page of before was demanded, and made room, in the step that is going on.
TEST_F(MilestonePrefetchersTest, WhatAStepDemandedIsForgottenWithItsPage) {
  begin("milestone");
  Access access = {number_++, step_, 4 * 17};
  prefetcher_->on_access(access);
  forget({4 * 17});
  go_on(20);
  EXPECT_THAT(step({4 * 17}), IsEmpty());  // which is its first access
  begin("learned:least=0");
  prefetcher_->on_evict(4 * 17);
  EXPECT_THAT(step({}), UnorderedElementsAre(4U * 17));
  prefetcher_->on_evict(4 * 25);
  forget({4 * 25});
  EXPECT_THAT(step({}), UnorderedElementsAre(4U * 17));
}
TEST_F(MilestonePrefetchersTest, AHeadBeyondTheLayoutIsOneMore) {
  for (const char* name : {"milestone", "learned:least=0"}) {
    begin(name);
    for (const uint64_t step : {0, 20, 40}) {
      for (const PageNumber page : {1'000U, 1'001U}) {
        Access access = {number_++, step_ + step, page};
        access.head = 77'777;
        prefetcher_->on_access(access);
      }
    }
    std::vector<PageNumber> named(64);
    EXPECT_EQ(prefetcher_->candidates(named), 0U) << name;  // two pages that both came
  }
}

}  // namespace
}  // namespace farpage::prefetch
