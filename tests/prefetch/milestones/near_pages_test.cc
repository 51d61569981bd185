#include "prefetch/milestones/near_pages.h"

#include <gtest/gtest.h>

namespace farpage::prefetch {
namespace {

TEST(NearPages, WhatIsNotNearOrWasFetchedAheadComesFromAfar) {
  NearPages near;
  EXPECT_TRUE(near.on_access(1));
  near.on_insert(1);  // it was demanded
  near.on_insert(2);  // it was not
  near.on_step();
  EXPECT_FALSE(near.on_access(1));
  EXPECT_TRUE(near.on_access(2));
  near.on_step();
  EXPECT_FALSE(near.on_access(2));
  near.on_evict(2);
  EXPECT_FALSE(near.contains(2));
  EXPECT_TRUE(near.on_access(2));
}
TEST(NearPages, ANumberThatIsUsedAgainIsNotNear) {
  NearPages near;
  near.on_access(1);
  near.on_insert(1);
  near.on_forget(1);
  EXPECT_FALSE(near.contains(1));
  EXPECT_FALSE(near.is_demanded(1));
  EXPECT_TRUE(near.on_access(1));
  EXPECT_TRUE(near.is_demanded(1));
}

}  // namespace
}  // namespace farpage::prefetch
