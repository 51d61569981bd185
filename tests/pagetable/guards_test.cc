#include "pagetable/guards.h"

#include <gtest/gtest.h>

#include <set>

namespace farpage {
namespace {

TEST(Guards, EachHasANameOfItsOwn) {
  const std::set<std::string_view> names(kGuardNames.begin(), kGuardNames.end());
  EXPECT_EQ(names.size(), kGuardNames.size());
  for (size_t i = 0; i < kGuardNames.size(); ++i) {
    EXPECT_EQ(guard_named(kGuardNames[i]), static_cast<Guard>(i));
  }
  EXPECT_EQ(guard_named("no_such_rule"), std::nullopt);
}

TEST(Guards, AreEnforced) {
  for (size_t i = 0; i < kGuardNames.size(); ++i) EXPECT_TRUE(enforced(static_cast<Guard>(i)));
}

#ifdef FARPAGE_GUARD_SWITCHES

TEST(Guards, OneIsOffAsLongAsItsSwitchLives) {
  {
    const GuardOff off(Guard::kFloor);
    EXPECT_FALSE(enforced(Guard::kFloor));
    EXPECT_TRUE(enforced(Guard::kNewerOnly));
  }
  EXPECT_TRUE(enforced(Guard::kFloor));
}

#else

static_assert(enforced(Guard::kFloor), "a program that serves has no switches");

#endif

}  // namespace
}  // namespace farpage
