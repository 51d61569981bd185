#include "bench/analyse/analysis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <string>
#include <vector>

#include "base/random.h"

namespace farpage::analyse {
namespace {

using prefetch::PageNumber;
using testing::HasSubstr;

using Steps = std::vector<std::vector<PageNumber>>;

paging::AccessTrace trace_of(const Steps& steps) {
  std::vector<prefetch::Access> accesses;
  for (uint64_t step = 0; step < steps.size(); ++step) {
    for (const PageNumber page : steps[step]) accesses.push_back({accesses.size(), step, page});
  }
  return paging::trace_of_accesses("test", true, std::move(accesses));
}

Analysis analysis_of(const Steps& steps, uint64_t budget_pages = 0) {
  const auto analysis = analyse(trace_of(steps), {.budget_pages = budget_pages, .seed = 1});
  EXPECT_TRUE(analysis.has_value());
  return *analysis;
}

uint64_t pages_in(const Analysis& analysis, PageClass page_class) {
  return analysis.classes[static_cast<size_t>(page_class)].pages;
}

TEST(Analysis, SharesOfWhatAStepDemandsAreOfItsPagesOnce) {
  // New: 0, 1, 2. Persistent: 1 in the second step, and 0 in the fourth. Re-entered: 0 in the
  // third.
  const Analysis analysis = analysis_of({{0, 1, 0}, {1, 2}, {0}, {0, 0}});
  EXPECT_EQ(analysis.steps, 4u);
  EXPECT_DOUBLE_EQ(analysis.fresh.value, 3.0 / 6);
  EXPECT_DOUBLE_EQ(analysis.persistent.value, 2.0 / 6);
  EXPECT_DOUBLE_EQ(analysis.reentered.value, 1.0 / 6);
}
TEST(Analysis, ReuseDistancesAreOtherPagesBetween) {
  Steps steps;
  for (PageNumber i = 0; i < 200; ++i) steps.push_back({i % 10});
  const Analysis analysis = analysis_of(steps);
  for (const uint64_t quantile : analysis.reuse_distance_quantiles) EXPECT_EQ(quantile, 9u);
  EXPECT_TRUE(analysis_of({{0}, {1}}).reuse_distance_quantiles.empty());
}
TEST(Analysis, PagesAreClassedByWhatMovesThem) {
  Steps steps(100);
  for (uint64_t step = 0; step < 100; ++step) {
    steps[step].push_back(0);                      // persistent
    if (step % 5 == 0) steps[step].push_back(1);   // recency: every fifth step
    if (step % 30 == 0) steps[step].push_back(2);  // milestone: every thirtieth
    if (step == 50) steps[step].push_back(3);      // once
  }
  const Analysis analysis = analysis_of(steps);
  EXPECT_EQ(pages_in(analysis, PageClass::kPersistent), 1u);
  EXPECT_EQ(pages_in(analysis, PageClass::kRecency), 1u);
  EXPECT_EQ(pages_in(analysis, PageClass::kMilestone), 1u);
  EXPECT_EQ(pages_in(analysis, PageClass::kOneShot), 1u);
  EXPECT_EQ(analysis.classes[static_cast<size_t>(PageClass::kMilestone)].accesses, 4u);
}
TEST(Analysis, RecallIsOfWhatTheNextFiveStepsDemandAndWasThere) {
  // After step 0: 0 and 1 are there, 2 to 5 are not; the steps up to 5 want 0 and not 1.
  // Of the one most recent page, 1, that is nothing; of two it is all.
  const Steps steps = {{0, 1}, {2}, {3}, {4}, {5}, {0}};
  EXPECT_DOUBLE_EQ(analysis_of(steps, 1).recall.value, 0);
  EXPECT_DOUBLE_EQ(analysis_of(steps, 2).recall.value, 1);
  // 0 was demanded by step 0 itself, so it is none that comes back after a step without it.
  EXPECT_EQ(analysis_of(steps, 2).recall_of_reentries.value, 0);
}
TEST(Analysis, ReentriesLeaveOutWhatTheStepItselfDemands) {
  // 0 in each step, 1 every third one: after a step without 1 the last page but 0 is 1 or 2.
  Steps steps;
  for (PageNumber i = 0; i < 60; ++i) steps.push_back({0, 1 + i % 3});
  const Analysis analysis = analysis_of(steps, 2);
  // 0 and the page of the step are near; the two others are not.
  EXPECT_NEAR(analysis.recall.value, 0.5, 0.02);
  EXPECT_DOUBLE_EQ(analysis.recall_of_reentries.value, 0);
  EXPECT_DOUBLE_EQ(analysis_of(steps, 4).recall_of_reentries.value, 1);
}
TEST(Analysis, WhatComesBackByChanceIsFoundAsOftenAsByChance) {
  Random random(5);
  Steps steps;
  for (int i = 0; i < 30'000; ++i) {
    steps.push_back({static_cast<PageNumber>(random.below(200))});
  }
  const Analysis analysis = analysis_of(steps, 40);
  EXPECT_NEAR(analysis.recall_of_reentries.value, 39.0 / 199, 0.02);
  EXPECT_NEAR(analysis.recall_of_reentries_random.value, 39.0 / 199, 0.002);
  EXPECT_THAT(verdict_on_recency(analysis), HasSubstr("does not foretell"));
  EXPECT_THAT(verdict_on_recency(analysis), HasSubstr("not known to do better than chance"));
}
TEST(Analysis, WhatWasUsedLatelyAndComesBackIsForetold) {
  // Pages come back after three steps, for a while, and then never.
  Steps steps;
  for (PageNumber i = 0; i < 900; ++i) steps.push_back({i / 30 * 3 + i % 3});
  const Analysis analysis = analysis_of(steps, 9);
  EXPECT_GT(analysis.recall_of_reentries.low, 0.9);
  EXPECT_EQ(verdict_on_recency(analysis),
            "recency foretells what comes back, more than chance would");
}
TEST(Analysis, WithoutReentriesThereIsNothingToForetell) {
  Steps steps;
  for (PageNumber i = 0; i < 100; ++i) steps.push_back({i});
  EXPECT_THAT(verdict_on_recency(analysis_of(steps)), HasSubstr("nothing comes back"));
}
TEST(Analysis, OfATraceWithoutAccessesNothingIsSaid) {
  EXPECT_FALSE(analyse(trace_of({}), {}).has_value());
}
TEST(Analysis, IsWrittenForPeopleAndPrograms) {
  const auto trace = trace_of({{0, 1}, {0}, {1}});
  const auto analysis = analyse(trace, {.budget_pages = 7, .seed = 3});
  const std::string text = analysis_text(trace, *analysis);
  for (const char* each :
       {"synthetic", "persistent", "milestone-driven", "the 7 pages", "seed 3"}) {
    EXPECT_THAT(text, HasSubstr(each));
  }
  const auto json = boost::json::parse(analysis_json(trace, *analysis));
  EXPECT_EQ(json.at("h1").at("budget_pages").to_number<uint64_t>(), 7u);
  EXPECT_DOUBLE_EQ(json.at("new").at("value").as_double(), 0.5);
  EXPECT_EQ(json.at("classes").at("persistent").at("pages").to_number<uint64_t>(), 2u);
}

}  // namespace
}  // namespace farpage::analyse
