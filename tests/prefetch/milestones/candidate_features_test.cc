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
  uint8_t triggers = 1;
  uint64_t since_trigger = 2;
  uint64_t away = 100;  // before it came back
  uint64_t age = 40;    // since then
  float entropy = 1;    // of its tokens
  float margin = 1;
  float mass = 0.1F;
  Mark mark = Mark::kExplores;  // as it was written
  Mark mark_now = Mark::kVerifies;
  uint32_t head = 0;
  uint64_t trigger_away = 0;
  float trigger_entropy = 0;
};

CandidateFeatures features_told(const Told& told) {
  Segmenter segmenter;
  PageRecords records({2, 4});
  uint64_t step = 1;
  const auto access = [&](PageNumber page, uint32_t head, float entropy, Mark mark) {
    Access access = {0, step, page};
    access.head = head;
    access.mass = told.mass;
    access.entropy = entropy;
    access.margin = told.margin;
    access.mark = mark;
    segmenter.on_step({&access, 1});
    records.on_access(access, step, segmenter);
  };
  // Each head demands something in each step.
  const auto go_on = [&](uint64_t steps) {
    for (uint64_t i = 0; i < steps; ++i) {
      ++step;
      for (uint32_t head = 0; head < 8; ++head) {
        Access access = {0, step, 100 + head};
        access.head = head;
        records.on_access(access, step, segmenter);
      }
    }
  };
  access(1, 7, told.trigger_entropy, Mark::kNone);
  access(0, told.head, told.entropy, told.mark);
  go_on(told.away);
  access(0, told.head, told.entropy, Mark::kNone);
  go_on(told.trigger_away);
  if (told.trigger_away > 0) access(1, 7, told.trigger_entropy, Mark::kNone);
  go_on(told.age - told.trigger_away);
  access(2, 5, 0, told.mark_now);
  return features_of({0, 1, step - told.since_trigger, told.relations, told.triggers}, records,
                     segmenter, step);
}

TEST(CandidateFeatures, AreTheSameForWhatIsAlikeWhicheverPageItIs) {
  EXPECT_EQ(features_told({}), features_told({}));
}
TEST(CandidateFeatures, TellWhateverIsKnown) {
  const std::vector<std::function<void(Told&)>> changes = {
      [](Told& told) { told.relations = Candidates::kSegment; },
      [](Told& told) { told.triggers = 9; },
      [](Told& told) { told.since_trigger = 7; },
      [](Told& told) { told.away = 900; },
      [](Told& told) { told.age = 400; },
      [](Told& told) { told.entropy = 3; },
      [](Told& told) { told.margin = 5; },
      [](Told& told) { told.mass = 0.001F; },
      [](Told& told) { told.mark = Mark::kConcludes; },
      [](Told& told) { told.mark_now = Mark::kConcludes; },
      [](Told& told) { told.head = 3; },
      [](Told& told) { told.trigger_away = 30; },
      [](Told& told) { told.trigger_entropy = 3; },
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
