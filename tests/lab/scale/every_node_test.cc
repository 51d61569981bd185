#include "lab/scale/every_node.h"

#include <gtest/gtest.h>

#include "base/clock.h"
#include "lab/scale/heap.h"

namespace farpage {
namespace {

constexpr uint64_t kSessionBytes = 1'024;  // at least
constexpr uint64_t kTurnNs = 100 * kMicrosecond;
constexpr EveryNodeOptions kSmall = {.nodes = 64, .few = 4, .silent = 16};

TEST(EveryNode, OneFetchOfAllNodesHasEachPageByItsDeadline) {
  const EveryNode result = ask_every_node(kSmall);
  EXPECT_EQ(result.pages, 128u);
  for (const auto& fetch : {result.cold, result.warm}) {
    EXPECT_EQ(fetch.ready, result.pages);
    EXPECT_EQ(fetch.wrong, 0u);
    EXPECT_LE(fetch.late_ns, kTurnNs);
  }
  EXPECT_LT(result.warm.last_ns, result.cold.last_ns) << "no node is dialled again";
}

// More of their pages than half of a lane's window.
TEST(EveryNode, SilentNodesMakeNothingLateOrWrongAndTakeNothingFromTheOthers) {
  const EveryNode result = ask_every_node({.nodes = 64, .few = 4, .pages_each = 8, .silent = 16});
  EXPECT_GT(result.of_silent, 64u);
  EXPECT_EQ(result.silent.ready, result.pages - result.of_silent);
  EXPECT_EQ(result.silent.wrong, 0u);
  EXPECT_LE(result.silent.late_ns, kTurnNs);
}

TEST(EveryNode, AClientPaysForTheNodesThatItUses) {
  if (heap_bytes() == 0) GTEST_SKIP() << "hardware: this allocator does not say what it holds";
  const EveryNode result = ask_every_node(kSmall);
  EXPECT_GT(result.few.ready, 0u);
  EXPECT_GT(result.few_heap_bytes, 4 * kSessionBytes);
  EXPECT_LT(result.few_heap_bytes, result.every_heap_bytes / 4);
}

}  // namespace
}  // namespace farpage
