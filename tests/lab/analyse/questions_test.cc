#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "lab/analyse/analysis.h"
#include "lab/paging/paging.h"
#include "prefetch/registry/registry.h"
#include "tests/lab/analyse/traces.h"

namespace farpage::analyse {
namespace {

using prefetch::PageNumber;
using prefetch::Signal;
using testing::HasSubstr;

Analysis analysis_of(const paging::AccessTrace& trace, uint64_t budget_pages = 0) {
  auto analysis = analyse(trace, {budget_pages, 1});
  EXPECT_TRUE(analysis.has_value());
  return std::move(*analysis);
}

double value_of(const Finding& finding, std::string_view key) {
  return figure_of(finding, key).value;
}

TEST(HeadQuestion, CountsWhatGoesAndIsWantedAgainWithinFiveSteps) {
  // Of one page: each access lets the one before go. All heads are as steady, so the first of them
  // is the least stable quarter. Of its page, that goes twice, one comes back; of the others'
  // three, one does, three steps later.
  SignalTrace made;
  const std::vector<std::pair<uint32_t, PageNumber>> steps = {{0, 0}, {1, 1}, {0, 0},
                                                              {2, 2}, {3, 3}, {1, 1}};
  for (uint64_t step = 0; step < steps.size(); ++step) {
    made.add(step, steps[step].second, 0, steps[step].first);
  }
  const Analysis analysis = analysis_of(made.with({}), 1);
  const Finding& finding = finding_of(analysis, "H2");
  EXPECT_DOUBLE_EQ(value_of(finding, "wanted_again_of_unstable"), 1.0 / 2);
  EXPECT_DOUBLE_EQ(value_of(finding, "wanted_again_of_stable"), 1.0 / 3);
  EXPECT_DOUBLE_EQ(value_of(finding, "stability_of_unstable"), 1);
}
TEST(HeadQuestion, AFifthStepIsSoonAndASixthIsNot) {
  // 0 goes in the second step; comes back so many steps later.
  for (const uint64_t later : {5, 6}) {
    SignalTrace made;
    uint64_t step = 0;
    made.add(step++, 0, 0, 0);
    for (uint64_t i = 0; i < later; ++i) {
      made.add(step++, static_cast<PageNumber>(1 + i), 0, static_cast<uint32_t>(1 + i));
    }
    made.add(step, 0, 0, 0);
    const Analysis analysis = analysis_of(made.with({}), 1);
    EXPECT_EQ(value_of(finding_of(analysis, "H2"), "wanted_again_of_unstable"), later == 5 ? 1 : 0);
  }
}
// Three heads that select alike for forty steps, and one whose selections are drawn anew in each
// step, among twelve pages; or four of this one.
Analysis heads(bool are_alike) {
  Random random(3);
  SignalTrace made;
  for (uint64_t step = 0; step < 2'000; ++step) {
    for (uint32_t head = 0; head < 4; ++head) {
      for (PageNumber i = 0; i < 2; ++i) {
        const PageNumber drawn = head * 12 + static_cast<PageNumber>(random.below(12));
        const auto fixed = static_cast<PageNumber>(48 + step / 40 * 6 + (head - 1) * 2 + i);
        made.add(step, head == 0 || are_alike ? drawn : fixed, 0.5F, head);
      }
    }
  }
  return analysis_of(made.with({Signal::kMass}), are_alike ? 30 : 12);
}
TEST(HeadQuestion, TellsHeadsWhoseSelectionsChangeFromOthers) {
  const Analysis analysis = heads(false);
  const Finding& finding = finding_of(analysis, "H2");
  EXPECT_EQ(finding.answer, Answer::kYes) << finding.verdict;
  EXPECT_LT(value_of(finding, "stability_of_unstable"), 0.2);
  EXPECT_GT(value_of(finding, "stability_of_stable"), 0.7);
  EXPECT_GT(value_of(finding, "wanted_again_of_unstable"), 0.3);
  EXPECT_EQ(value_of(finding, "wanted_again_of_stable"), 0);
  // Nothing can be divided by nothing.
  EXPECT_EQ(value_of(finding, "times"), -1);
}
TEST(HeadQuestion, HeadsThatAreAlikeAreNotTold) {
  const Analysis analysis = heads(true);
  const Finding& finding = finding_of(analysis, "H2");
  EXPECT_EQ(finding.answer, Answer::kNo) << finding.verdict;
  EXPECT_NEAR(value_of(finding, "times"), 1, 0.2);
}
TEST(HeadQuestion, NeedsThatSomethingGoes) {
  SignalTrace made;
  for (uint32_t head = 0; head < 4; ++head) made.add(0, head, 0, head);
  const Analysis analysis = analysis_of(made.with({}), 4);
  EXPECT_EQ(finding_of(analysis, "H2").answer, Answer::kNotAsked);
  EXPECT_THAT(finding_of(analysis, "H2").verdict, HasSubstr("smaller --budget"));
}

// 20 of 100 pages are demanded in four steps of five; with much attention, or with as much as all.
Finding attention(bool attention_tells) {
  Random random(9);
  SignalTrace made;
  for (PageNumber page = 0; page < 100; ++page) made.add(0, page, 0);
  for (uint64_t step = 1; step < 5'000; ++step) {
    const bool is_wanted = random.below(5) != 0;
    const auto page = static_cast<PageNumber>(is_wanted ? random.below(20) : 20 + random.below(80));
    // A rarely accessed page gets more each time, so that it has as much in all.
    const float mass = attention_tells ? 0.1F : is_wanted ? 0.01F : 0.16F;
    made.add(step, page, mass);
  }
  return finding_of(analysis_of(made.with({Signal::kMass})), "H3");
}
TEST(AttentionQuestion, TellsWhatComesBackWhereAttentionWentThereBefore) {
  const Finding finding = attention(true);
  EXPECT_EQ(finding.answer, Answer::kYes) << finding.verdict;
  EXPECT_NEAR(value_of(finding, "recall_by_chance"), 0.2, 0.02);
  // Of ten steps 8 are drawn from the wanted 20, which are 6.7 different ones; and 2 from the
  // others.
  EXPECT_NEAR(value_of(finding, "recall_of_reentries"), 0.77, 0.03);
}
TEST(AttentionQuestion, TellsNothingWhereAttentionWentElsewhere) {
  const Finding finding = attention(false);
  EXPECT_EQ(finding.answer, Answer::kNo) << finding.verdict;
  EXPECT_LT(value_of(finding, "beyond_chance"), 0.1);
}

// Each query looks at all of 100 pages: most at the first ten, or at ten of its own.
Finding hot_spots(bool agree, uint64_t queries = 200) {
  Random random(2);
  SignalTrace made;
  for (uint64_t query = 0; query < queries; ++query) {
    const auto own = static_cast<PageNumber>(10 * random.below(10));
    for (PageNumber page = 0; page < 100; ++page) {
      const bool is_hot = agree ? page < 10 : page >= own && page < own + 10;
      made.add(query, page, is_hot ? 0.05F : 0.005F);
    }
  }
  return finding_of(analysis_of(made.with({Signal::kMass})), "B-H2");
}
TEST(HotSpotQuestion, IsWhetherStepsAgreeWithAllOfThem) {
  const Finding agree = hot_spots(true);
  EXPECT_EQ(agree.answer, Answer::kYes);
  EXPECT_DOUBLE_EQ(value_of(agree, "jaccard"), 1);
  EXPECT_DOUBLE_EQ(value_of(agree, "attainable"), 1);
  const Finding differ = hot_spots(false);
  EXPECT_EQ(differ.answer, Answer::kNo);
  // A tenth of the queries have the ten that lead, the others none of these.
  EXPECT_NEAR(value_of(differ, "jaccard"), 0.1, 0.08);
}
TEST(HotSpotQuestion, NeedsFiftyQueriesAndSaysWhatWasAttainable) {
  EXPECT_EQ(hot_spots(true, 49).answer, Answer::kNotAsked);
  EXPECT_EQ(hot_spots(true, 50).answer, Answer::kYes);
  // Of 100 pages ten are hot, of which a step names one.
  SignalTrace made;
  for (uint64_t step = 0; step < 200; ++step) {
    made.add(step, static_cast<PageNumber>(step % 100), 0.5F);
  }
  const Analysis analysis = analysis_of(made.with({Signal::kMass}));
  EXPECT_DOUBLE_EQ(value_of(finding_of(analysis, "B-H2"), "attainable"), 0.1);
}

// A working set of ten pages, each demanded once in ten steps, twice; and between them pages
// that are demanded twice, and never again. The set has the attention, or the others do.
SignalTrace scanned(bool attention_tells) {
  SignalTrace made;
  PageNumber next = 10;
  for (uint64_t step = 0; step < 4'000; ++step) {
    const auto kept = static_cast<PageNumber>(step % 10);
    const float much = attention_tells ? 0.5F : 0.01F;
    const float little = attention_tells ? 0.01F : 0.5F;
    // The engine's own ranking is always right.
    for (int i = 0; i < 2; ++i) made.add(step, kept, much, 0, 2);
    for (int i = 0; i < 2; ++i) made.add(step, next, little, 0, 1);
    ++next;
  }
  return made;
}
TEST(ImportanceQuestion, ComparesWhatPoliciesHit) {
  const auto trace = scanned(true).with({Signal::kMass});
  const Analysis analysis = analysis_of(trace, 15);
  const Finding& finding = finding_of(analysis, "B-H1");
  EXPECT_EQ(finding.answer, Answer::kYes) << finding.verdict;
  // Of four accesses lru hits the second of each page, and with importance those to the set too.
  EXPECT_NEAR(value_of(finding, "lru"), 0.5, 0.001);
  EXPECT_NEAR(value_of(finding, "importance"), 0.75, 0.01);
  EXPECT_NEAR(value_of(finding, "belady"), 0.75, 0.01);
  EXPECT_NEAR(value_of(finding, "gain"), 1.5, 0.02);
  // Replays of the same policies say the same.
  ASSERT_EQ(analysis.kept.size(), 16u);
  for (const Kept& kept : analysis.kept) {
    const auto chosen = *prefetch::choose_policy(kept.policy);
    const auto runs =
        page_all(trace, std::vector{chosen}, std::vector{kept.budget_pages}, [](size_t) {});
    ASSERT_TRUE(runs.has_value());
    EXPECT_DOUBLE_EQ(kept.hit_rate(1).value, runs->front().result.hit_rate()) << kept.policy;
  }
}
TEST(ImportanceQuestion, SaysThatItDoesNotHitMore) {
  const Analysis analysis = analysis_of(scanned(false).with({Signal::kMass}), 15);
  EXPECT_EQ(finding_of(analysis, "B-H1").answer, Answer::kNo);
}
TEST(ImportanceQuestion, SaysWhetherTheGainGrows) {
  // The set has the attention in the later half alone.
  SignalTrace made;
  PageNumber next = 10;
  for (uint64_t step = 0; step < 4'000; ++step) {
    const bool tells = step >= 2'000;
    const auto kept = static_cast<PageNumber>(step % 10);
    for (int i = 0; i < 2; ++i) made.add(step, kept, tells ? 0.5F : 0.01F);
    for (int i = 0; i < 2; ++i) made.add(step, next, tells ? 0.01F : 0.5F);
    ++next;
  }
  const Analysis grows = analysis_of(made.with({Signal::kMass}), 15);
  EXPECT_THAT(finding_of(grows, "B-H1").verdict, HasSubstr("its gain grows"));
  // From 1.05, as importance pins the first page of the set, to 1.5.
  EXPECT_NEAR(value_of(finding_of(grows, "B-H1"), "growth"), 0.45, 0.02);
  const Analysis steady = analysis_of(scanned(true).with({Signal::kMass}), 15);
  EXPECT_THAT(finding_of(steady, "B-H1").verdict, testing::Not(HasSubstr("grows")));
}

TEST(PostHocQuestion, ComparesAttentionWithTheEnginesRanking) {
  const Analysis good = analysis_of(scanned(true).with({Signal::kMass, Signal::kScore}), 15);
  EXPECT_EQ(finding_of(good, "B-H4").answer, Answer::kYes);
  EXPECT_NEAR(value_of(finding_of(good, "B-H4"), "times"), 1, 1e-9);
  const Analysis bad = analysis_of(scanned(false).with({Signal::kMass, Signal::kScore}), 15);
  EXPECT_EQ(finding_of(bad, "B-H4").answer, Answer::kNo);
  EXPECT_NEAR(value_of(finding_of(bad, "B-H4"), "native"), 0.75, 0.01);
}

// Pages 0 to 2 come back 3, 4 and 5 times, and 3 to 6 come back 0, 1, 1 and 2 times.
paging::AccessTrace reused() {
  Steps steps;
  const std::vector<uint64_t> reuses = {3, 4, 5, 0, 1, 1, 2};
  for (PageNumber page = 0; page < reuses.size(); ++page) {
    for (uint64_t use = 0; use <= reuses[page]; ++use) steps.push_back({page});
  }
  return trace_of(steps);
}
Finding milestones(const Milestones& pages) {
  const auto analysis = analyse(reused(), {0, 1, pages});
  EXPECT_TRUE(analysis.has_value());
  return finding_of(*analysis, "H3, milestones");
}
TEST(MilestoneQuestion, IsWelchsTest) {
  // Means 4 and 1, variances 1 and 2/3: t = 4.243 with 3.857 degrees of freedom.
  const Finding finding = milestones({true, true, true, false, false, false, false});
  EXPECT_DOUBLE_EQ(value_of(finding, "reuses_of_milestones"), 4);
  EXPECT_DOUBLE_EQ(value_of(finding, "reuses_of_others"), 1);
  EXPECT_NEAR(value_of(finding, "effect"), 3.354, 0.001);
  // 1.96 · √(7/12 + 3.354²/14); and 4.303 · √(1/3), by Student's table for two degrees of freedom.
  EXPECT_NEAR(figure_of(finding, "effect").low, 3.354 - 2.308, 0.001);
  EXPECT_NEAR(figure_of(finding, "reuses_of_milestones").high, 4 + 2.484, 0.001);
  EXPECT_THAT(finding.verdict, HasSubstr("p = 0.014"));
  EXPECT_EQ(finding.answer, Answer::kOpen);
}
TEST(MilestoneQuestion, OfEnoughPagesIsAnswered) {
  Steps steps;
  Milestones labelled(200);
  for (PageNumber page = 0; page < 200; ++page) {
    labelled[page] = page % 4 == 0;
    const uint64_t uses = (labelled[page] ? 5 : 2) + page % 3;
    for (uint64_t use = 0; use < uses; ++use) steps.push_back({page});
  }
  for (const bool is_swapped : {false, true}) {
    Milestones pages = labelled;
    if (is_swapped) pages.flip();
    const auto analysis = analyse(trace_of(steps), {0, 1, pages});
    ASSERT_TRUE(analysis.has_value());
    EXPECT_EQ(finding_of(*analysis, "H3, milestones").answer,
              is_swapped ? Answer::kNo : Answer::kYes);
    uint64_t counted = 0;
    for (const PageClassShare& share : analysis->classes) counted += share.milestones;
    EXPECT_EQ(counted, is_swapped ? 150u : 50u);
  }
}
TEST(MilestoneQuestion, NeedsTwoOfEachKind) {
  EXPECT_EQ(milestones({true, false, false, false, false, false, false}).answer, Answer::kNotAsked);
}

}  // namespace
}  // namespace farpage::analyse
