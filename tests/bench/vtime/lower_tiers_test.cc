#include "bench/vtime/lower_tiers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace farpage::vtime {
namespace {

using testing::HasSubstr;

TEST(Tier, IsReadAsItIsWritten) {
  const auto tier = parse_tier("latency_us=2.5:gbps=200:pages=300");
  ASSERT_TRUE(tier.has_value()) << tier.error().message;
  EXPECT_EQ(tier->latency_ns, 2'500u);
  EXPECT_EQ(tier->bytes_per_s, 25'000'000'000u);
  EXPECT_EQ(tier->capacity_pages, 300u);
  EXPECT_EQ(parse_tier("gbps=1")->latency_ns, TierOptions().latency_ns);
}
TEST(Tier, WhatIsNoneIsRefused) {
  for (const std::string text :
       {"latency_us", "latency_us=", "latency_us=-1", "gbps=0", "gbps=nan", "pages=0", "pages=1e12",
        "speed=3", "gbps=1x", "gbps=1::pages=2"}) {
    const auto tier = parse_tier(text);
    ASSERT_FALSE(tier.has_value()) << text;
    EXPECT_THAT(tier.error().message, HasSubstr("'" + text + "'"));
  }
}
TEST(Tier, TheLastIsEndlessAndNoOther) {
  const TierOptions endless;
  TierOptions small;
  small.capacity_pages = 1;
  EXPECT_TRUE(validate({endless}).has_value());
  EXPECT_TRUE(validate({small, small, endless}).has_value());
  EXPECT_THAT(validate({small}).error().message, HasSubstr("the last tier"));
  EXPECT_THAT(validate({endless, endless}).error().message, HasSubstr("every tier but the last"));
  EXPECT_FALSE(validate({}).has_value());
  EXPECT_FALSE(validate(std::vector<TierOptions>(9, small)).has_value());
}

class LowerTiersTest : public testing::Test {
 protected:
  static std::vector<TierOptions> of(uint64_t first_pages) {
    std::vector<TierOptions> tiers(2);
    tiers[0].capacity_pages = first_pages;
    return tiers;
  }
};

TEST_F(LowerTiersTest, WhatWasUsedLongestAgoIsPushedOut) {
  LowerTiers tiers(of(2));
  EXPECT_EQ(tiers.nearest(1), std::nullopt);
  tiers.keep(1);
  tiers.keep(2);
  tiers.use(0, 1);
  tiers.keep(3);
  EXPECT_EQ(tiers.nearest(1), 0u);
  EXPECT_EQ(tiers.nearest(2), 1u);
  EXPECT_EQ(tiers.nearest(3), 0u);
  EXPECT_EQ(tiers.written_pages(), 4u);
}
TEST_F(LowerTiersTest, WhatIsThereIsNotWrittenAgain) {
  LowerTiers tiers(of(1));
  tiers.keep(1);
  tiers.keep(1);
  EXPECT_EQ(tiers.written_pages(), 1u);
  tiers.keep(2);  // pushes 1 out
  tiers.keep(1);  // pushes 2 out
  EXPECT_EQ(tiers.written_pages(), 5u);
  tiers.keep(2);  // 1 is below already
  EXPECT_EQ(tiers.written_pages(), 6u);
  EXPECT_EQ(tiers.nearest(1), 1u);
}

}  // namespace
}  // namespace farpage::vtime
