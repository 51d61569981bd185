#include "tier/operation_queue.h"

#include <gtest/gtest.h>

#include <vector>

namespace farpage {
namespace {

void add(OperationQueue& queue, uint64_t tag, uint64_t deadline_ns) {
  queue.add(deadline_ns).tag = tag;
}

struct Posted {
  uint64_t deadline_ns;
  std::vector<uint64_t> tags;
  friend bool operator==(const Posted&, const Posted&) = default;
};

std::vector<Posted> runs_of(const OperationQueue& queue) {
  std::vector<Posted> runs;
  size_t at = 0;
  for (size_t run = 0; run < queue.runs(); ++run) {
    runs.push_back({queue.deadline_ns(run), {}});
    for (; at < queue.end(run); ++at) runs.back().tags.push_back(queue.operations()[at].tag);
  }
  EXPECT_EQ(at, queue.operations().size());
  return runs;
}

TEST(OperationQueue, NeighboursOfOneDeadlineAreOneRun) {
  OperationQueue queue(8);
  add(queue, 1, 10);
  add(queue, 2, 10);
  add(queue, 3, 20);
  add(queue, 4, 10);
  EXPECT_EQ(runs_of(queue), (std::vector<Posted>{{10, {1, 2}}, {20, {3}}, {10, {4}}}));
}

TEST(OperationQueue, ADeadlineOfNothingIsARunAfterAClearToo) {
  OperationQueue queue(8);
  add(queue, 1, 0);
  queue.clear();
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.runs(), 0u);
  add(queue, 2, 0);
  EXPECT_EQ(runs_of(queue), (std::vector<Posted>{{0, {2}}}));
}

TEST(OperationQueue, WhatStaysKeepsItsOrderAndItsRuns) {
  OperationQueue queue(8);
  const uint64_t deadlines[] = {10, 10, 20, 20, 10, 30};
  for (uint64_t tag = 0; tag < 6; ++tag) add(queue, tag, deadlines[tag]);
  std::vector<uint64_t> asked;
  queue.remove(
      [&](const Operation& operation) {
        asked.push_back(operation.tag);
        return operation.tag == 0 || operation.tag == 2 || operation.tag == 3;
      },
      [&](const Operation& operation) { return deadlines[operation.tag]; });
  EXPECT_EQ(asked, (std::vector<uint64_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(runs_of(queue), (std::vector<Posted>{{10, {1, 4}}, {30, {5}}}));
}

}  // namespace
}  // namespace farpage
