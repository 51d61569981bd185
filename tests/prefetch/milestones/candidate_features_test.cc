#include "prefetch/milestones/candidate_features.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <set>
#include <vector>

namespace farpage::prefetch {
namespace {

// A page that was written, came back, and may come again, as another did; what is told of it.
struct Told {
  uint8_t relations = Candidates::kHeads;
  uint8_t same_block = 1;
  uint64_t since_first = 2;
  uint64_t away = 100;  // before it came back
  uint64_t age = 40;    // since then
  float entropy = 1;    // of its tokens
  float margin = 1;
  float mass = 0.1F;
  Mark mark = Mark::kExplores;  // as it was written
  Mark mark_now = Mark::kVerifies;
  uint32_t head = 0;
  uint64_t trigger_away = 0;
  size_t triggers = 0;  // in the last step
  bool is_marked = false;
  bool is_trigger_marked = false;
};

CandidateFeatures features_told(const Told& told) {
  ReturnWatch watch({2, 4});
  const auto access_of = [&](PageNumber page, uint32_t head) {
    Access access = {0, 0, page};
    access.head = head;
    access.mass = told.mass;
    access.entropy = told.entropy;
    access.margin = told.margin;
    return access;
  };
  const auto step = [&](std::vector<Access> accesses, Mark mark) {
    // Each head demands something in each step.
    for (uint32_t head = 0; head < 8; ++head) accesses.push_back(access_of(100 + head, head));
    for (Access& access : accesses) access.mark = mark;
    watch.on_step(
        accesses, [](PageNumber) {}, [](PageNumber page) { return page >= 10; });
  };
  const auto go_on = [&](uint64_t steps) {
    for (uint64_t i = 0; i < steps; ++i) step({}, Mark::kNone);
  };
  std::vector<Access> others;
  for (PageNumber page = 10; page < 10 + told.triggers; ++page)
    others.push_back(access_of(page, 6));
  step(others, Mark::kNone);
  step({access_of(1, 7), access_of(0, told.head)}, told.mark);
  go_on(told.away);
  step({access_of(0, told.head)}, Mark::kNone);
  go_on(told.trigger_away);
  if (told.trigger_away > 0) step({access_of(1, 7)}, Mark::kNone);
  go_on(told.age - told.trigger_away);
  step(others, told.mark_now);
  MarkedPages marked;
  if (told.is_marked) marked.add(0);
  if (told.is_trigger_marked) marked.add(1);
  Candidates::Candidate candidate;
  candidate.page = 0;
  candidate.trigger = 1;
  candidate.relations = told.relations;
  candidate.same_block = told.same_block;
  candidate.block_step = watch.step() - told.since_first;
  return features_of(candidate, watch, marked);
}

TEST(CandidateFeatures, AreTheSameForWhatIsAlikeWhicheverPageItIs) {
  EXPECT_EQ(features_told({}), features_told({}));
}
TEST(CandidateFeatures, TellWhateverIsKnown) {
  const std::vector<std::function<void(Told&)>> changes = {
      [](Told& told) { told.relations = Candidates::kSegment; },
      [](Told& told) { told.same_block = 4; },
      [](Told& told) { told.since_first = 7; },
      [](Told& told) { told.triggers = 9; },
      [](Told& told) { told.away = 900; },
      [](Told& told) { told.age = 400; },
      [](Told& told) { told.entropy = 3; },
      [](Told& told) { told.margin = 5; },
      [](Told& told) { told.mass = 0.001F; },
      [](Told& told) { told.mark = Mark::kConcludes; },
      [](Told& told) { told.mark_now = Mark::kConcludes; },
      [](Told& told) { told.head = 3; },
      [](Told& told) { told.trigger_away = 30; },
      [](Told& told) { told.is_marked = true; },
      [](Told& told) { told.is_trigger_marked = true; },
  };
  std::set<CandidateFeatures> all = {features_told({})};
  for (size_t i = 0; i < changes.size(); ++i) {
    Told told;
    changes[i](told);
    EXPECT_TRUE(all.insert(features_told(told)).second) << "change " << i;
  }
}
TEST(CandidateFeatures, AreOfOneKindEach) {
  const CandidateFeatures features = features_told({});
  EXPECT_EQ(std::set<uint32_t>(features.begin(), features.end()).size(), features.size());
}
TEST(CandidateFeatures, WhatIsNoNumberOrEndlessIsTakenAsWell) {
  Told told;
  told.entropy = NAN;
  told.margin = INFINITY;
  told.mass = NAN;
  const CandidateFeatures features = features_told(told);
  EXPECT_EQ(std::set<uint32_t>(features.begin(), features.end()).size(), features.size());
}

}  // namespace
}  // namespace farpage::prefetch
