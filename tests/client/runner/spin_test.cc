#include "client/runner/spin.h"

#include <gtest/gtest.h>

namespace farpage {
namespace {

TEST(Spin, EndsOnceItIsReady) {
  int looks = 0;
  EXPECT_TRUE(spin_until(kNever / 2, [&] { return ++looks == 1'000; }));
  EXPECT_EQ(looks, 1'000);
}

TEST(Spin, EndsWhenItsTimeIsOver) {
  int looks = 0;
  EXPECT_FALSE(spin_until(kMicrosecond, [&] { return ++looks < 0; }));
  EXPECT_GE(looks, 2);
}

TEST(Spin, OfNoTimeLooksOnce) {
  int looks = 0;
  EXPECT_FALSE(spin_until(0, [&] { return ++looks < 0; }));
  EXPECT_EQ(looks, 1);
}

}  // namespace
}  // namespace farpage
