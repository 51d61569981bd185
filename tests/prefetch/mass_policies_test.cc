#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "prefetch/policies/policies.h"
#include "tests/prefetch/evictions.h"

// The policies that go by attention mass.
namespace farpage::prefetch {
namespace {

using testing::ElementsAre;

struct Selected {
  uint64_t step;
  uint32_t head;
  PageNumber page;
  float mass;
};
using Selection = std::vector<Selected>;
std::vector<PageNumber> evicted_of_heads(const std::string& name, uint64_t budget_pages,
                                         const Selection& selected) {
  std::vector<Access> accesses;
  for (const Selected& each : selected) {
    Access access = {accesses.size(), each.step, each.page};
    access.head = each.head;
    access.mass = each.mass;
    accesses.push_back(access);
  }
  return evicted_of(name, budget_pages, accesses);
}

struct Massive {
  uint64_t step;
  PageNumber page;
  float mass;
};
std::vector<PageNumber> evicted(const std::string& name, uint64_t budget_pages,
                                const std::vector<Massive>& massive) {
  Selection selected;
  for (const auto& [step, page, mass] : massive) selected.push_back({step, 0, page, mass});
  return evicted_of_heads(name, budget_pages, selected);
}
using Masses = std::vector<Massive>;

TEST(H2o, KeepsTheNewestAndTheHeaviest) {
  // Two of four places are for the newest: 3, which has less mass than 2, is one when 5 comes.
  const Masses accesses = {{0, 0, 0.5F}, {0, 1, 0.1F},  {1, 2, 0.4F}, {1, 3, 0.2F},
                           {2, 4, 0.0F}, {3, 5, 0.01F}, {3, 6, 0.0F}};
  EXPECT_THAT(evicted("h2o", 4, accesses), ElementsAre(1, 2, 3));
}
TEST(H2o, WithoutAShareForTheNewestKeepsTheHeaviest) {
  const Masses accesses = {{0, 0, 0.5F}, {0, 1, 0.1F}, {1, 2, 0.05F}, {2, 3, 0.2F}};
  EXPECT_THAT(evicted("h2o:recent=0", 2, accesses), ElementsAre(1, 2));
  EXPECT_THAT(evicted("h2o:recent=1", 2, accesses), ElementsAre(0, 1));
}
TEST(H2o, AddsUpTheMassOfAPage) {
  const Masses accesses = {{0, 0, 0.2F}, {0, 1, 0.3F}, {1, 0, 0.2F}, {2, 2, 0.0F}};
  EXPECT_THAT(evicted("h2o:recent=0", 2, accesses), ElementsAre(1));
}
TEST(Attention, KeepsTheTopShareWhateverIsUsed) {
  // One of two places is for the top.
  const Masses accesses = {{0, 0, 0.9F}, {1, 1, 0.5F}, {2, 2, 0.5F}, {3, 1, 0.5F}, {4, 3, 0.1F}};
  EXPECT_THAT(evicted("attention:share=0.5", 2, accesses), ElementsAre(1, 2, 1));
}
TEST(Attention, MeasuresThePagesByTheMassOfAnAccess) {
  // 0 has gathered more, 1 has more in each access.
  const Masses accesses = {{0, 0, 0.4F}, {1, 0, 0.4F}, {2, 0, 0.1F},
                           {3, 1, 0.5F}, {4, 0, 0.1F}, {5, 2, 0.0F}};
  EXPECT_THAT(evicted("attention:share=0.5", 2, accesses), ElementsAre(0));
  EXPECT_THAT(evicted("h2o:recent=0", 2, accesses), ElementsAre(1));
}
TEST(Attention, LetsTheTopFallWhenItsMassDoes) {
  const Masses accesses = {{0, 0, 0.9F}, {1, 1, 0.5F}, {2, 0, 0.0F}, {3, 1, 0.5F}, {4, 2, 0.0F}};
  EXPECT_THAT(evicted("attention:share=0.5", 2, accesses), ElementsAre(0));
}
TEST(Importance, IsAMovingAverageThatDecaysWithTheSteps) {
  // With 0.5: 0 has 0.4 at step 0 and 0.4 / 2^10 at step 10, 1 has 0.0005 there.
  const auto of = [](float mass) { return Masses{{0, 0, 0.8F}, {10, 1, mass}, {10, 2, 0.9F}}; };
  EXPECT_THAT(evicted("importance:alpha=0.5:pinned=0", 2, of(0.001F)), ElementsAre(0));
  EXPECT_THAT(evicted("importance:alpha=0.5:pinned=0", 2, of(0.0005F)), ElementsAre(1));
}
TEST(Importance, AddsWhatComesToWhatIsLeft) {
  // 0: 0.1 · 0.5 · 0.9 + 0.1 · 0.5 = 0.095; 1: 0.1 · 0.94 = 0.094, or 0.096.
  const auto of = [](float mass) {
    return Masses{{0, 0, 0.5F}, {1, 0, 0.5F}, {1, 1, mass}, {1, 2, 0.9F}};
  };
  EXPECT_THAT(evicted("importance:pinned=0", 2, of(0.94F)), ElementsAre(1));
  EXPECT_THAT(evicted("importance:pinned=0", 2, of(0.96F)), ElementsAre(0));
}
TEST(Importance, KnowsItsOrderAfterAMillionSteps) {
  const Masses accesses = {{1'000'000, 0, 0.5F}, {1'000'000, 1, 0.6F}, {1'000'002, 2, 0.9F}};
  EXPECT_THAT(evicted("importance:pinned=0", 2, accesses), ElementsAre(0));
}
// Accesses to a few pages often, to others seldom, with masses over three orders of magnitude.
std::vector<Access> massive(uint64_t first_step, uint64_t gap, size_t count) {
  Random random(11);
  std::vector<Access> accesses;
  for (size_t i = 0; i < count; ++i) {
    const bool is_hot = random.below(3) > 0;
    const auto page = static_cast<PageNumber>(random.below(is_hot ? 20 : 200));
    Access access = {i, first_step + i / 4 * gap, page};
    access.mass = std::exp2(-static_cast<float>(random.below(1'000)) / 100);
    accesses.push_back(access);
  }
  return accesses;
}
TEST(Importance, DecidesAlikeWhateverItsFirstStepIs) {
  constexpr uint64_t kMilliseconds = 1'770'000'000'000;  // since 1970
  for (const char* name : {"importance", "importance:alpha=0.9", "importance:alpha=0.001"}) {
    const auto from_0 = evicted_of(name, 16, massive(0, 1, 20'000));
    EXPECT_EQ(evicted_of(name, 16, massive(kMilliseconds, 1, 20'000)), from_0) << name;
    EXPECT_EQ(evicted_of(name, 16, massive(kMilliseconds * 1'000'000, 1, 20'000)), from_0) << name;
  }
}
// The victims, one by one: `judge` hears of the victim, of the other resident pages, and of the
// access.
template <typename Judge>
void judge_victims(Policy& policy, size_t budget_pages, const std::vector<Access>& accesses,
                   Judge judge) {
  std::set<PageNumber> resident;
  for (const Access& access : accesses) {
    policy.on_access(access);
    if (resident.contains(access.page)) continue;
    if (resident.size() == budget_pages) {
      const PageNumber victim = policy.victim(access.step);
      ASSERT_EQ(resident.erase(victim), 1U);
      judge(victim, resident, access);
      policy.on_evict(victim, access.step);
    }
    resident.insert(access.page);
    policy.on_insert(access.page, access.step);
  }
}
TEST(Importance, StepsOfNanosecondsLeaveOnlyTheLatestStepsMass) {
  // Nothing is left of what was before: the page goes that was accessed longest ago, and of those
  // of one step the one with the least mass in it.
  const auto accesses = massive(1'770'000'000'000'000'000, 20'000'000, 20'000);
  const auto policy = importance().make(Setting(), std::vector<double>{0.1, 0, 0});
  std::map<PageNumber, std::pair<uint64_t, float>> worth;  // its last step, and its mass in that
  size_t next = 0;
  judge_victims(*policy, 16, accesses,
                [&](PageNumber victim, const auto& others, const Access& at) {
                  for (; next <= at.number; ++next) {
                    auto& [step, mass] = worth[accesses[next].page];
                    mass = accesses[next].mass + (step == accesses[next].step ? mass : 0);
                    step = accesses[next].step;
                  }
                  for (const PageNumber other : others)
                    ASSERT_LE(worth[victim], worth[other]) << at.number;
                });
}
TEST(Importance, DecidesAsInDoublesAfterTenMillionSteps) {
  constexpr double kAlpha = 0.1;
  const auto accesses = massive(0, 100, 400'000);
  ASSERT_GE(accesses.back().step, 9'999'000U);
  const auto policy = importance().make(Setting(), std::vector<double>{kAlpha, 0, 0});
  std::map<PageNumber, std::vector<Access>> latest;  // of a page, the last 64
  size_t next = 0;
  judge_victims(
      *policy, 32, accesses, [&](PageNumber victim, const auto& others, const Access& at) {
        for (; next <= at.number; ++next) {
          auto& of_page = latest[accesses[next].page];
          of_page.push_back(accesses[next]);
          if (of_page.size() > 64) of_page.erase(of_page.begin());
        }
        if (at.number % 64 != 0) return;
        const auto now = [&](PageNumber page) {
          double sum = 0;
          for (const Access& access : latest[page]) {
            const auto since = static_cast<double>(at.step - access.step);
            sum += kAlpha * static_cast<double>(access.mass) * std::pow(1 - kAlpha, since);
          }
          return sum;
        };
        for (const PageNumber other : others)
          ASSERT_LE(now(victim), now(other) * 1.001) << at.number;
      });
}
TEST(Importance, PinsTheFirstPageOfEachHead) {
  std::vector<Access> accesses;
  const auto add = [&](uint32_t head, PageNumber page, float mass) {
    Access access = {accesses.size(), accesses.size() / 2, page};
    access.head = head;
    access.mass = mass;
    accesses.push_back(access);
  };
  add(0, 0, 0.0F);
  add(0, 1, 0.9F);
  add(1, 2, 0.0F);
  add(1, 3, 0.9F);
  add(1, 4, 0.9F);
  add(0, 5, 0.9F);
  EXPECT_THAT(evicted_of("importance", 4, accesses), ElementsAre(1, 3));
  EXPECT_THAT(evicted_of("importance:pinned=2", 4, accesses), ElementsAre(0, 4));
  EXPECT_THAT(evicted_of("importance:pinned=0", 4, accesses), ElementsAre(0, 2));
}
TEST(Importance, LetsPinnedPagesStay) {
  const Masses accesses = {{0, 0, 0.0F}, {1, 1, 0.9F}, {1, 2, 0.9F}};
  EXPECT_THAT(evicted("importance", 2, accesses), ElementsAre(1));
  EXPECT_THAT(evicted("importance:pinned=0", 2, accesses), ElementsAre(0));
}
// Pages that come in turns, and pages that come once; whose mass says which, or the contrary.
size_t hits_of(const std::string& name, bool is_truthful) {
  Random random(3);
  std::vector<Access> accesses;
  PageNumber once = 100;
  for (uint64_t step = 0; step < 20'000; ++step) {
    const bool comes_back = random.below(2) == 0;
    Access access = {step, step, comes_back ? static_cast<PageNumber>(random.below(24)) : once++};
    access.mass = comes_back == is_truthful ? 0.9F : 0.01F;
    accesses.push_back(access);
  }
  // Each miss but the first sixteen evicts.
  return accesses.size() - 16 - evicted_of(name, 16, accesses).size();
}
TEST(Importance, IsNotTrustedWhereItRanksWrongly) {
  const size_t lru = hits_of("lru", false);
  EXPECT_LT(hits_of("importance:pinned=0", false), lru / 2);
  EXPECT_GT(hits_of("importance:pinned=0:trust=0.5", false), lru - lru / 20);
}
TEST(Importance, IsTrustedWhereItRanksRightly) {
  const size_t ranked = hits_of("importance:pinned=0", true);
  EXPECT_GT(ranked, hits_of("lru", true) + 1'000);
  EXPECT_GT(hits_of("importance:pinned=0:trust=0.5", true), ranked - ranked / 20);
}
TEST(Raas, EvictsTheOldestStampAndNotTheOldestUse) {
  // 1 is used last, but with next to no attention, and in the lower half.
  const Masses accesses = {{0, 9, 0.5F}, {1, 1, 0.5F},  {2, 2, 0.5F},
                           {3, 2, 0.5F}, {3, 1, 1e-5F}, {4, 3, 0.5F}};
  EXPECT_THAT(evicted("raas", 3, accesses), ElementsAre(1));
}
TEST(Raas, StampsTheUpperHalfOfAStepBelowTheThreshold) {
  const Masses accesses = {{0, 9, 0.5F},  {1, 1, 0.5F},  {2, 2, 0.5F},
                           {3, 1, 5e-5F}, {3, 9, 1e-5F}, {4, 3, 0.5F}};
  EXPECT_THAT(evicted("raas", 3, accesses), ElementsAre(2));
}
TEST(Raas, TheUpperHalfIsOfEachHeadsPages) {
  // In step 3 head 0 has two above the threshold; 3, with less, is in the upper half of head 1's.
  const Selection accesses = {{0, 0, 9, 0.5F},  {1, 1, 3, 0.5F},  {2, 0, 1, 0.5F},
                              {2, 1, 4, 0.5F},  {3, 0, 1, 0.5F},  {3, 0, 9, 0.5F},
                              {3, 1, 3, 5e-5F}, {3, 1, 4, 1e-5F}, {4, 0, 5, 0.5F}};
  EXPECT_THAT(evicted_of_heads("raas", 4, accesses), ElementsAre(4));
}
TEST(Raas, LetsThePromptStay) {
  const Masses accesses = {{0, 0, 0.0F}, {0, 1, 0.0F}, {1, 2, 0.9F}, {2, 3, 0.9F}};
  EXPECT_THAT(evicted("raas", 3, accesses), ElementsAre(2));
}
TEST(Lazy, KeepsWhatIsNotOverdueAndEvictsWhatNeverCameBack) {
  // 0 comes every 40 steps and is not due; 1 was active later, and never twice.
  const Masses accesses = {{0, 0, 0.5F}, {40, 0, 0.5F}, {45, 1, 0.5F}, {70, 2, 0.5F}};
  EXPECT_THAT(evicted("lazy", 2, accesses), ElementsAre(1));
  EXPECT_THAT(evicted("lru", 2, accesses), ElementsAre(0));
}
TEST(Lazy, EvictsWhatIsOverdueByItsLongestGap) {
  // Both were active at step 40, 0 after a gap of 40, 1 after one of 2.
  const Masses accesses = {
      {0, 0, 0.5F}, {38, 1, 0.5F}, {40, 1, 0.5F}, {40, 0, 0.5F}, {70, 2, 0.5F}};
  EXPECT_THAT(evicted("lazy", 2, accesses), ElementsAre(1));
}
TEST(Lazy, KeepsWhatIsNew) {
  // 1 was first accessed in the window, and never came back; 0 did.
  const Masses accesses = {{0, 0, 0.5F}, {30, 0, 0.5F}, {50, 1, 0.5F}, {60, 2, 0.5F}};
  EXPECT_THAT(evicted("lazy", 2, accesses), ElementsAre(0));
  EXPECT_THAT(evicted("lazy:window=5", 2, accesses), ElementsAre(1));
}
TEST(Lazy, AnOldPageIsNotKeptForItsUseAlone) {
  // 1, as old as 0, came back after 2 steps, and 9 steps ago; 0 after 60, and 20 ago.
  const Masses accesses = {
      {0, 0, 0.5F}, {57, 1, 0.5F}, {59, 1, 0.5F}, {60, 0, 0.5F}, {80, 2, 0.5F}};
  EXPECT_THAT(evicted("lazy:window=23", 2, accesses), ElementsAre(1));
  EXPECT_THAT(evicted("lazy:window=24", 2, accesses), ElementsAre(0));
}
TEST(Lazy, KeepsWhatIsNewUpToTheLastStep) {
  constexpr uint64_t kLast = UINT64_MAX;
  const Masses accesses = {
      {kLast - 60, 0, 0.5F}, {kLast - 30, 0, 0.5F}, {kLast - 10, 1, 0.5F}, {kLast, 2, 0.5F}};
  EXPECT_THAT(evicted("lazy", 2, accesses), ElementsAre(0));
}
TEST(Lazy, RanksNoOftenerThanAnAccessForTwoPages) {
  // Four pages that come back after 10^6 steps, and five whose age is so many of their longest gaps
  // at step 1,000,010: 100 and 101: 2.1, 102: 2, 103: 1.8, 104: 1.5; and 100 steps later 101: 3.1,
  // 102: 12, 103: 2, 104: 11.5.
  Masses accesses;
  const auto come = [&](uint64_t first, uint64_t last, PageNumber page) {
    accesses.push_back({first, page, 0.5F});
    accesses.push_back({last, page, 0.5F});
  };
  for (PageNumber page = 0; page < 4; ++page) come(0, 1'000'000, page);
  come(998'440, 999'000, 103);
  come(999'700, 999'800, 100);
  come(999'700, 999'800, 101);
  come(999'980, 999'990, 102);
  come(999'985, 999'995, 104);
  accesses.push_back({1'000'010, 200, 0.5F});
  // An access after it was ranked it is not ranked again, and four after it is: 200 never came
  // back.
  accesses.push_back({1'000'110, 201, 0.5F});
  for (PageNumber page = 0; page < 4; ++page) accesses.push_back({1'000'110, page, 0.5F});
  accesses.push_back({1'000'110, 202, 0.5F});
  accesses.push_back({1'000'110, 203, 0.5F});
  std::ranges::stable_sort(accesses, {}, &Massive::step);
  EXPECT_THAT(evicted("lazy", 9, accesses), ElementsAre(100, 101, 200, 102));
}
TEST(Lazy, TakesLittleMassForNoActivity) {
  const Masses accesses = {{0, 0, 0.5F}, {1, 1, 0.5F}, {2, 0, 1e-5F}, {40, 2, 0.5F}};
  EXPECT_THAT(evicted("lazy", 2, accesses), ElementsAre(0));
  EXPECT_THAT(evicted("lazy:threshold=0", 2, accesses), ElementsAre(1));
}

// A steady head that always selects 0 of 0 and 1, and one that selects 2 and 3 in turns.
std::vector<PageNumber> evicted_after_two_heads(const std::string& name, const Selection& then,
                                                uint64_t first_step = 0) {
  Selection all;
  for (uint64_t step = 0; step < 4; ++step) {
    all.push_back({step, 0, 0, 0.9F});
    all.push_back({step, 1, static_cast<PageNumber>(2 + step % 2), 0.5F});
    all.push_back({step, 0, 1, 0.1F});
  }
  all.insert(all.end(), then.begin(), then.end());
  for (Selected& each : all) each.step += first_step;
  return evicted_of_heads(name, 4, all);
}
TEST(Stability, EvictsWhatAStableHeadDoesNotSelectAndLastAnUnstableOnesPages) {
  const std::string name = "stability:top=1:window=4:unstable=0.5";
  // 4 comes and is in no selection yet, 0 is; then only 0 is left of the stable head.
  EXPECT_THAT(evicted_after_two_heads(name, {{4, 0, 4, 0.0F}, {4, 0, 5, 0.0F}}), ElementsAre(1, 4));
  EXPECT_THAT(evicted_after_two_heads(name, {{4, 1, 4, 0.0F}, {4, 1, 5, 0.0F}, {4, 1, 6, 0.0F}}),
              ElementsAre(1, 0, 2));
  EXPECT_THAT(evicted_after_two_heads("lru", {{4, 0, 4, 0.0F}}), ElementsAre(2));
}
TEST(Stability, WithoutUnstableHeadsKeepsTheLatestSelections) {
  // Of the second head that is 3.
  EXPECT_THAT(evicted_after_two_heads("stability:top=1:window=4:unstable=0",
                                      {{4, 0, 4, 0.0F}, {4, 1, 5, 0.0F}, {4, 1, 6, 0.0F}}),
              ElementsAre(2, 1, 4));
}
TEST(Stability, RanksOnceInAWindow) {
  // 1 is selected at step 4, which nobody looks at before step 8.
  EXPECT_THAT(evicted_after_two_heads("stability:top=1:window=4:unstable=0.5",
                                      {{4, 0, 1, 0.9F}, {5, 0, 4, 0.1F}}),
              ElementsAre(1));
  EXPECT_THAT(evicted_after_two_heads("stability:top=1:window=4:unstable=0.5",
                                      {{4, 0, 0, 0.9F}, {7, 0, 1, 0.9F}, {8, 0, 4, 0.1F}}),
              ElementsAre(0));
}
TEST(Stability, RanksOnceInAWindowUpToTheLastStep) {
  EXPECT_THAT(evicted_after_two_heads("stability:top=1:window=4:unstable=0.5",
                                      {{4, 0, 1, 0.9F}, {5, 0, 4, 0.1F}}, UINT64_MAX - 6),
              ElementsAre(1));
}
TEST(Stability, RanksNoOftenerThanAnAccessForTwoHeads) {
  // In step 100 it is ranked, and the first of four heads keeps 7; in step 200 that is too short
  // ago to look what was selected since.
  Selection accesses = {{0, 0, 7, 0.9F}, {0, 0, 8, 0.1F}};
  for (PageNumber page = 9; page < 71; ++page) accesses.push_back({0, 1 + page % 3, page, 0.1F});
  accesses.push_back({100, 0, 8, 0.1F});
  const Selected last = {200, 0, 99, 0.1F};
  const auto evicted_at_last = [&] {
    Selection all = accesses;
    all.push_back(last);
    return evicted_of_heads("stability:top=1:unstable=0", 64, all);
  };
  EXPECT_THAT(evicted_at_last(), ElementsAre(9));
  accesses.push_back({100, 0, 8, 0.1F});
  EXPECT_THAT(evicted_at_last(), ElementsAre(7));
}

}  // namespace
}  // namespace farpage::prefetch
