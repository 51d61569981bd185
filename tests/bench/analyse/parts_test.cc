#include "bench/analyse/parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/bench/analyse/traces.h"

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
  auto trace = trace_of({{0}, {}, {1}, {0}, {1}});
  trace.sequences = {7, 8, 3, 7, 3};
  const auto parts = parts_of(trace);
  ASSERT_TRUE(parts.has_value());
  EXPECT_TRUE(parts->are_sequences());
  EXPECT_EQ(parts->steps(), 4u);
  EXPECT_EQ(parts->count(), 2u);
  EXPECT_EQ(parts->of({0, 0, 0}, 0), parts->of({0, 3, 0}, 2));
  EXPECT_EQ(parts->of({0, 2, 0}, 1), parts->of({0, 4, 0}, 3));
  EXPECT_NE(parts->of({0, 0, 0}, 0), parts->of({0, 2, 0}, 1));
}
TEST(Parts, OfOneSequenceAreThoseOfTheTrace) {
  auto trace = trace_of({{0}, {1}});
  trace.sequences = {5, 5};
  EXPECT_FALSE(parts_of(trace)->are_sequences());
}

// Of two sessions one demands the same page each time, and the other never one that it had before;
// one behind the other, or in turns of so many requests.
Analysis two_sessions(uint64_t in_turn, bool tells) {
  Steps steps;
  std::vector<uint32_t> sequences;
  for (uint64_t i = 0; i < 400; ++i) {
    const auto session = static_cast<uint32_t>(i / in_turn % 2);
    steps.push_back({session == 0 ? 0 : static_cast<PageNumber>(i + 1)});
    sequences.push_back(session);
  }
  auto trace = trace_of(steps);
  if (tells) trace.sequences = sequences;
  return *analyse(trace, {1, 1});
}
TEST(Parts, SessionsThatDifferWidenTheIntervalHoweverTheyTakeTurns) {
  for (const uint64_t in_turn : {1, 3, 200}) {
    const Analysis analysis = two_sessions(in_turn, true);
    EXPECT_NEAR(analysis.fresh.value, 0.5, 0.01) << in_turn;
    EXPECT_LT(analysis.fresh.low, 0.01) << in_turn;
    EXPECT_EQ(analysis.fresh.high, 1) << in_turn;
    EXPECT_TRUE(analysis.parts_are_sequences);
    EXPECT_EQ(analysis.parts, 2u);
  }
  // Who does not know of them takes what they do in turn for what all do.
  const Analysis unknowing = two_sessions(1, false);
  EXPECT_GT(unknowing.fresh.low, 0.49);
  EXPECT_LT(unknowing.fresh.high, 0.51);
}

// One session comes back to each of two pages in turn, and the other to each of a hundred.
TEST(Parts, WhatComesBackCountsForTheSessionThatDemandsIt) {
  Steps steps;
  std::vector<uint32_t> sequences;
  for (PageNumber i = 0; i < 1'000; ++i) {
    steps.push_back({i % 2});
    steps.push_back({2 + i % 100});
    sequences.insert(sequences.end(), {0, 1});
  }
  auto trace = trace_of(steps);
  const auto recall_of = [](const paging::AccessTrace& of) {
    return figure_of(finding_of(*analyse(of, {20, 1}), "H1"), "recall_of_reentries");
  };
  const Estimate unknowing = recall_of(trace);
  EXPECT_LT(unknowing.high - unknowing.low, 0.1);
  trace.sequences = sequences;
  const Estimate estimate = recall_of(trace);
  EXPECT_EQ(estimate.value, unknowing.value);
  EXPECT_EQ(estimate.low, 0);
  EXPECT_EQ(estimate.high, 1);
}
TEST(Parts, AReportSaysWhatWasResampled) {
  auto trace = trace_of({{0}, {1}, {0}});
  EXPECT_THAT(analysis_text(trace, *analyse(trace, {})), HasSubstr("50 parts of the trace"));
  trace.sequences = {0, 1, 0};
  EXPECT_THAT(analysis_text(trace, *analyse(trace, {})), HasSubstr("2 sequences"));
}

}  // namespace
}  // namespace farpage::analyse
