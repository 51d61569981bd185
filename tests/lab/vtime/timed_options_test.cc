#include <gtest/gtest.h>

#include "lab/vtime/timed_replay.h"

namespace farpage::vtime {
namespace {

TEST(TimedOptions, ThatCannotBeAreRefused) {
  TimedOptions options;
  options.page_bytes = 0;
  EXPECT_FALSE(options.validate().has_value());
  options = TimedOptions();
  options.tiers.clear();
  EXPECT_FALSE(options.validate().has_value());
  options = TimedOptions();
  options.prefetch_pages = 1'000'001;
  EXPECT_FALSE(options.validate().has_value());
  options = TimedOptions();
  options.tiers = {{.latency_ns = UINT64_MAX, .bytes_per_s = 1, .capacity_pages = 0}};
  EXPECT_FALSE(options.validate().has_value());
  EXPECT_TRUE(TimedOptions().validate().has_value());
}

}  // namespace
}  // namespace farpage::vtime
