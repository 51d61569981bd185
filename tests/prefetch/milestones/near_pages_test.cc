#include "prefetch/milestones/near_pages.h"

#include <gtest/gtest.h>

#include <array>

namespace farpage::prefetch {
namespace {

TEST(NearPages, WhatIsNotNearOrWasFetchedAheadComesFromAfar) {
  NearPages near;
  EXPECT_TRUE(near.on_access(1));
  near.on_insert(1);  // it was demanded
  near.on_insert(2);  // it was not
  near.on_step({});
  EXPECT_FALSE(near.on_access(1));
  EXPECT_TRUE(near.on_access(2));
  near.on_step({});
  EXPECT_FALSE(near.on_access(2));
  near.on_evict(2);
  EXPECT_FALSE(near.contains(2));
  EXPECT_TRUE(near.on_access(2));
}
TEST(NearPages, WhatWasNamedAfterTheStepBeforeMayHaveCome) {
  NearPages near;
  near.on_step(std::array<PageNumber, 1>{7});
  EXPECT_EQ(near.is_there(7), 1);
  EXPECT_EQ(near.is_there(8), 0);
  near.on_step({});
  EXPECT_EQ(near.is_there(7), 0);
  near.on_insert(8);
  EXPECT_EQ(near.is_there(8), 1);
}
TEST(NearPages, TheLessComesOfWhatIsNamedTheLessItIsCountedOn) {
  NearPages comes;
  NearPages stays_away;
  for (PageNumber page = 0; page < 5'000; ++page) {
    comes.on_step(std::array<PageNumber, 1>{page});
    comes.on_insert(page);
    stays_away.on_step(std::array<PageNumber, 1>{page});
  }
  EXPECT_NEAR(comes.is_there(4'999), 1, 1e-6);
  comes.on_step(std::array<PageNumber, 1>{6'000});
  stays_away.on_step(std::array<PageNumber, 1>{6'000});
  EXPECT_NEAR(comes.is_there(6'000), 1, 1e-6);
  EXPECT_NEAR(stays_away.is_there(6'000), 0.5, 1e-6);  // half of what is not known
}

}  // namespace
}  // namespace farpage::prefetch
