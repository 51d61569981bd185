#include "lab/analyse/measures/parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/lab/analyse/traces.h"

namespace farpage::analyse {
namespace {

using prefetch::PageNumber;
using testing::HasSubstr;

TEST(Parts, AreFiftyOfTheTraceWhereItTellsOfNoSequences) {
  const Parts parts(1'000);
  EXPECT_FALSE(parts.are_sequences());
  EXPECT_EQ(parts.count(), 50u);
  EXPECT_EQ(parts.of({}, 0), 0u);
  EXPECT_EQ(parts.of({}, 19), 0u);
  EXPECT_EQ(parts.of({}, 20), 1u);
  EXPECT_EQ(parts.of({}, 999), 49u);
  EXPECT_EQ(parts.of({}, 2'000), 49u);
}
TEST(Parts, AreTheSequencesThatDemandAnything) {
  Steps steps;
  std::vector<uint32_t> sequences;
  for (uint32_t i = 0; i < 20; ++i) {
    steps.push_back({i % 10});
    sequences.push_back(50 + i % 10);
  }
  steps.push_back({});
  sequences.push_back(99);
  auto trace = trace_of(steps);
  trace.sequences = sequences;
  const auto parts = parts_of(trace);
  ASSERT_TRUE(parts.has_value());
  EXPECT_TRUE(parts->are_sequences());
  EXPECT_EQ(parts->steps(), 20u);
  EXPECT_EQ(parts->count(), 10u);
  EXPECT_EQ(parts->of({0, 0, 0}, 0), parts->of({0, 10, 0}, 10));
  EXPECT_NE(parts->of({0, 0, 0}, 0), parts->of({0, 1, 0}, 1));
}
TEST(Parts, OfFewSequencesAreThoseOfTheTrace) {
  auto trace = trace_of({{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}, {8}});
  trace.sequences = {0, 1, 2, 3, 4, 5, 6, 7, 8};
  EXPECT_FALSE(parts_of(trace)->are_sequences());
}

constexpr uint32_t kSessions = 10;

// Of ten sessions every other one demands the same page each time, and the others never one that
// they had before; one behind the other, or in turns of so many requests.
Analysis sessions(uint64_t in_turn, bool tells) {
  Steps steps;
  std::vector<uint32_t> sequences;
  for (uint64_t i = 0; i < 2'000; ++i) {
    const auto session = static_cast<uint32_t>(i / in_turn % kSessions);
    steps.push_back({session % 2 == 0 ? session : static_cast<PageNumber>(kSessions + i)});
    sequences.push_back(session);
  }
  auto trace = trace_of(steps);
  if (tells) trace.sequences = sequences;
  return *analyse(trace, {1, 1});
}
TEST(Parts, SessionsThatDifferWidenTheIntervalHoweverTheyTakeTurns) {
  for (const uint64_t in_turn : {1, 4, 200}) {
    const Analysis analysis = sessions(in_turn, true);
    EXPECT_NEAR(analysis.fresh.value, 0.5, 0.01) << in_turn;
    EXPECT_LT(analysis.fresh.low, 0.31) << in_turn;
    EXPECT_GT(analysis.fresh.high, 0.69) << in_turn;
    EXPECT_TRUE(analysis.parts_are_sequences);
    EXPECT_EQ(analysis.parts, kSessions);
  }
  // A reader that does not know of them takes one sequence's accesses for those of all.
  const Analysis unknowing = sessions(1, false);
  EXPECT_GT(unknowing.fresh.low, 0.49);
  EXPECT_LT(unknowing.fresh.high, 0.51);
}

// Every other session comes back to each of two pages in turn, and the others to each of a hundred.
TEST(Parts, WhatComesBackCountsForTheSessionThatDemandsIt) {
  Steps steps;
  std::vector<uint32_t> sequences;
  for (PageNumber i = 0; i < 1'000; ++i) {
    for (uint32_t session = 0; session < kSessions; ++session) {
      steps.push_back({1'000 * session + i % (session % 2 == 0 ? 2 : 100)});
      sequences.push_back(session);
    }
  }
  auto trace = trace_of(steps);
  const auto recall_of = [](const paging::AccessTrace& of) {
    return figure_of(finding_of(*analyse(of, {40, 1}), "H1"), "recall_of_reentries");
  };
  const Estimate unknowing = recall_of(trace);
  EXPECT_LT(unknowing.high - unknowing.low, 0.1);
  trace.sequences = sequences;
  const Estimate estimate = recall_of(trace);
  EXPECT_EQ(estimate.value, unknowing.value);
  EXPECT_LT(estimate.low, 0.31);
  EXPECT_GT(estimate.high, 0.69);
}
TEST(Parts, AReportSaysWhatWasResampled) {
  auto trace = trace_of({{0}, {1}, {0}});
  EXPECT_THAT(analysis_text(trace, *analyse(trace, {})), HasSubstr("50 parts of the trace"));
  trace = trace_of({{0}, {1}, {0}, {1}, {0}, {1}, {0}, {1}, {0}, {1}});
  trace.sequences = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  EXPECT_THAT(analysis_text(trace, *analyse(trace, {})), HasSubstr("10 sequences"));
}

}  // namespace
}  // namespace farpage::analyse
