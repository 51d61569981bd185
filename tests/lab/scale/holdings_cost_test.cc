#include "lab/scale/holdings_cost.h"

#include <gtest/gtest.h>

namespace farpage {
namespace {

// Of five members with two replicas one leaves: each page of the node has one other holder, and one
// in four had the one that left.
TEST(HoldingsCost, CountsWhatAllAreToldAndWhatThoseLackWhoWereWhole) {
  constexpr uint64_t kPages = 2'000;
  const HoldingsCost cost = measure_holdings(5, 2, kPages, 1, 1);
  EXPECT_EQ(cost.pages, kPages);
  EXPECT_EQ(cost.told, kPages);
  EXPECT_NEAR(static_cast<double>(cost.told_whole), kPages / 4.0, 100);
  EXPECT_GT(cost.walk_ns_per_page(), 0);
  EXPECT_GT(cost.walk_whole_ns_per_page(), 0);
  EXPECT_GT(cost.tell_ns_per_page(), 0);
  EXPECT_EQ(cost.answers, 3u) << "each asks before the walk begins";
}

}  // namespace
}  // namespace farpage
