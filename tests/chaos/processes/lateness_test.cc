#include "chaos/processes/lateness.h"

#include <gtest/gtest.h>

namespace farpage::processes {
namespace {

constexpr uint64_t kWatchdog = 10;

TEST(Lateness, IsExplainedByWhatItsThreadOrTheWatchdogHadToWait) {
  EXPECT_TRUE((Lateness{.ns = 10}.is_explained(kWatchdog)));
  EXPECT_FALSE((Lateness{.ns = 11}.is_explained(kWatchdog)));
  EXPECT_TRUE((Lateness{.ns = 30, .waited_ns = 30}.is_explained(kWatchdog)));
  EXPECT_FALSE((Lateness{.ns = 31, .waited_ns = 30}.is_explained(kWatchdog)));
  EXPECT_FALSE((Lateness{.ns = 1}.is_explained(0)));
}

TEST(Lateness, OfSeveralThreadsEachMayHaveWaitedAsLongAsTheWatchdog) {
  EXPECT_TRUE((Lateness{.ns = 30, .others = 2}.is_explained(kWatchdog)));
  EXPECT_FALSE((Lateness{.ns = 31, .others = 2}.is_explained(kWatchdog)));
  EXPECT_TRUE((Lateness{.ns = 45, .waited_ns = 25, .others = 2}.is_explained(kWatchdog)));
  EXPECT_FALSE((Lateness{.ns = 46, .waited_ns = 25, .others = 2}.is_explained(kWatchdog)));
}

}  // namespace
}  // namespace farpage::processes
