#include "lab/analyse/analysis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <boost/json/parse.hpp>
#include <string>
#include <vector>

#include "base/random.h"
#include "tests/lab/analyse/traces.h"

namespace farpage::analyse {
namespace {

using prefetch::PageNumber;
using testing::HasSubstr;

Analysis analysis_of(const Steps& steps, uint64_t budget_pages = 0) {
  const auto analysis = analyse(trace_of(steps), {budget_pages, 1});
  EXPECT_TRUE(analysis.has_value());
  return *analysis;
}

double recall(const Analysis& analysis) {
  return figure_of(finding_of(analysis, "H1"), "recall").value;
}
Estimate of_reentries(const Analysis& analysis) {
  return figure_of(finding_of(analysis, "H1"), "recall_of_reentries");
}
std::string verdict(const Analysis& analysis) {
  return finding_of(analysis, "H1").verdict;
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
  EXPECT_EQ(analysis.distances.size(), 19u);
  for (const DistanceQuantile& each : analysis.distances) EXPECT_EQ(each.pages, 9u);
  EXPECT_TRUE(analysis_of({{0}, {1}}).distances.empty());
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
  EXPECT_EQ(analysis.classes[static_cast<size_t>(PageClass::kMilestone)].uses, 4u);
}
TEST(Analysis, PagesWithoutAccessesAreOfNoClass) {
  // As where all accesses of 0 and 1 were left out.
  const Analysis analysis = analysis_of({{2, 3}, {2}, {2}});
  EXPECT_EQ(pages_in(analysis, PageClass::kOneShot), 1u);
  EXPECT_EQ(pages_in(analysis, PageClass::kPersistent), 1u);
}
TEST(Analysis, AnyBudgetIsTaken) {
  SignalTrace made;
  for (uint64_t step = 0; step < 9; ++step) made.add(step, static_cast<PageNumber>(step % 3), 0.5F);
  const auto trace = made.with({prefetch::Signal::kMass});
  const auto analysis = analyse(trace, {9'999'999'999'999'999'999U, 1});
  ASSERT_TRUE(analysis.has_value());
  EXPECT_DOUBLE_EQ(figure_of(finding_of(*analysis, "B-H1"), "lru").value, 6.0 / 9);
}
TEST(Analysis, RecallIsOfWhatTheNextFiveStepsDemandAndWasThere) {
  // After step 0: 0 and 1 are there, 2 to 5 are not; the steps up to 5 want 0 and not 1.
  // Of the one most recent page, 1, that is nothing; of two it is all. After step 1 they want 1,
  // which comes back, and is not among the two most recent, 2 and 1, but for those.
  const Steps steps = {{0, 1}, {2}, {3}, {4}, {5}, {0}, {1}};
  EXPECT_DOUBLE_EQ(recall(analysis_of(steps, 1)), 0);
  EXPECT_DOUBLE_EQ(recall(analysis_of(steps, 2)), 2.0 / 3);
  EXPECT_DOUBLE_EQ(recall(analysis_of(steps, 3)), 1);
  // After step 0 nothing is wanted that it did not demand itself; after step 1, 0 and 1 are.
  EXPECT_DOUBLE_EQ(of_reentries(analysis_of(steps, 2)).value, 0.5);
}
TEST(Analysis, ReentriesLeaveOutWhatTheStepItselfDemands) {
  // 0 in each step, 1 every third one: after a step without 1 the last page but 0 is 1 or 2.
  Steps steps;
  for (PageNumber i = 0; i < 60; ++i) steps.push_back({0, 1 + i % 3});
  const Analysis analysis = analysis_of(steps, 2);
  // 0 and the page of the step are near; the two others are not.
  EXPECT_NEAR(recall(analysis), 0.5, 0.02);
  EXPECT_DOUBLE_EQ(of_reentries(analysis).value, 0);
  EXPECT_DOUBLE_EQ(of_reentries(analysis_of(steps, 4)).value, 1);
}
TEST(Analysis, WhatComesBackByChanceIsFoundAsOftenAsByChance) {
  Random random(5);
  Steps steps;
  for (int i = 0; i < 30'000; ++i) {
    steps.push_back({static_cast<PageNumber>(random.below(200))});
  }
  const Analysis analysis = analysis_of(steps, 40);
  EXPECT_NEAR(of_reentries(analysis).value, 39.0 / 199, 0.02);
  EXPECT_NEAR(figure_of(finding_of(analysis, "H1"), "recall_by_chance").value, 39.0 / 199, 0.002);
  EXPECT_NEAR(figure_of(finding_of(analysis, "H1"), "beyond_chance").value, 0, 0.02);
  EXPECT_THAT(verdict(analysis), HasSubstr("does not foretell"));
  EXPECT_THAT(verdict(analysis), HasSubstr("not known to do better than chance"));
  EXPECT_EQ(finding_of(analysis, "H1").answer, Answer::kNo);
}
TEST(Analysis, WhatWasUsedLatelyAndComesBackIsForetold) {
  // Pages come back after three steps, for a while, and then never.
  Steps steps;
  for (PageNumber i = 0; i < 900; ++i) steps.push_back({i / 30 * 3 + i % 3});
  const Analysis analysis = analysis_of(steps, 9);
  EXPECT_GT(of_reentries(analysis).low, 0.9);
  EXPECT_EQ(verdict(analysis), "recency foretells what comes back, more than chance would");
  EXPECT_EQ(finding_of(analysis, "H1").answer, Answer::kYes);
}
TEST(Analysis, WithoutReentriesThereIsNothingToForetell) {
  Steps steps;
  for (PageNumber i = 0; i < 100; ++i) steps.push_back({i});
  EXPECT_THAT(verdict(analysis_of(steps)), HasSubstr("nothing comes back"));
}
TEST(Analysis, OfATraceWithoutAccessesNothingIsSaid) {
  EXPECT_FALSE(analyse(trace_of({}), {}).has_value());
}
TEST(Analysis, IsWrittenForPeopleAndPrograms) {
  const auto trace = trace_of({{0, 1}, {0}, {1}});
  const auto analysis = analyse(trace, {7, 3});
  const std::string text = analysis_text(trace, *analysis);
  for (const char* each :
       {"synthetic", "persistent", "milestone-driven", "the 7 pages", "seed 3"}) {
    EXPECT_THAT(text, HasSubstr(each));
  }
  const auto json = boost::json::parse(analysis_json(trace, *analysis));
  EXPECT_EQ(json.at("budget_pages").to_number<uint64_t>(), 7u);
  EXPECT_DOUBLE_EQ(json.at("new").at("value").as_double(), 0.5);
  EXPECT_EQ(json.at("classes").at("persistent").at("pages").to_number<uint64_t>(), 2u);
}

TEST(Analysis, QuestionsThatNeedWhatIsNotThereSayWhat) {
  const Analysis analysis = analysis_of({{0, 1}, {0}, {1}});
  EXPECT_EQ(analysis.findings.size(), 7u);
  for (const char* name : {"H3", "B-H1", "B-H2", "B-H4"}) {
    EXPECT_EQ(finding_of(analysis, name).answer, Answer::kNotAsked) << name;
    EXPECT_THAT(finding_of(analysis, name).verdict, HasSubstr("'mass'")) << name;
  }
  EXPECT_THAT(finding_of(analysis, "H2").verdict, HasSubstr("4 heads"));
  EXPECT_THAT(finding_of(analysis, "H3, milestones").verdict, HasSubstr("--labels"));
}
TEST(Analysis, ReadsTheTraceAsOftenAsItSays) {
  SignalTrace made;
  for (uint64_t step = 0; step < 300; ++step) {
    made.add(step, static_cast<PageNumber>(step % 80), 0.5F, 0, 1);
  }
  using prefetch::Signal;
  for (const std::vector<Signal>& signals :
       {std::vector<Signal>{}, {Signal::kMass}, {Signal::kMass, Signal::kScore}}) {
    const auto trace = made.with(signals);
    std::atomic<uint64_t> accesses = 0;
    const auto counted = observed(trace, [&](size_t read) { accesses += read; });
    ASSERT_TRUE(analyse(counted, {}).has_value());
    EXPECT_EQ(accesses, passes_over(trace) * trace.accesses) << signals.size();
  }
}
TEST(Analysis, EveryFindingIsInEveryReport) {
  const auto trace = trace_of({{0, 1}, {0}, {1}});
  const auto analysis = analyse(trace, {7, 3});
  const std::string text = analysis_text(trace, *analysis);
  const std::string html = analysis_html(trace, *analysis);
  const auto json = boost::json::parse(analysis_json(trace, *analysis));
  for (const Finding& finding : analysis->findings) {
    EXPECT_THAT(text, HasSubstr(finding.question));
    EXPECT_THAT(html, HasSubstr(finding.question));
  }
  for (const char* key : {"h1", "h2", "h3", "h3_milestones", "b_h1", "b_h2", "b_h4"}) {
    EXPECT_TRUE(json.at(key).is_object()) << key;
  }
  EXPECT_EQ(json.at("h2").at("answer").as_string(), "not asked");
}

}  // namespace
}  // namespace farpage::analyse
