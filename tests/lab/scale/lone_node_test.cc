#include "lab/scale/lone_node.h"

#include <gtest/gtest.h>

#include "lab/scale/heap.h"

namespace farpage {
namespace {

TEST(LoneNode, IsARealMemberThatHoldsWhatWasPut) {
  LoneNode node(20, 256, 1);
  node.put(100);
  EXPECT_EQ(node.status().slots_live, 100u);
  EXPECT_EQ(node.status().fleet.others.size(), 19u);
}

TEST(LoneNode, EntersTheEpochThatAnotherNodeHasJoinedAndKillsWhatThatOneTakes) {
  LoneNode node(2, 1024, 1);
  node.put(300);
  const uint64_t before = node.status().epoch;
  node.enter_next_epoch_ns();
  EXPECT_EQ(node.status().epoch, before + 1);
  EXPECT_EQ(node.status().fleet.others.size(), 2u);
  EXPECT_NEAR(static_cast<double>(node.status().slots_live), 200, 40) << "a third is the third's";
}

TEST(LoneNode, ThousandNodesAreAFleet) {
  LoneNode node(1'000, 256, 1);
  node.put(3);
  EXPECT_EQ(node.status().slots_live, 3u);
  EXPECT_EQ(node.status().fleet.others.size(), 999u);
  if (heap_bytes() > 0) {
    EXPECT_GT(node.client_heap_bytes(), 1'000 * 100u);
  }
}

}  // namespace
}  // namespace farpage
