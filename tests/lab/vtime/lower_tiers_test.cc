#include "lab/vtime/lower_tiers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "prefetch/registry/registry.h"

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

TEST(Tier, NoneIsMorePreciseThanTheOneBefore) {
  TierOptions small;
  small.capacity_pages = 1;
  TierOptions rough = small;
  rough.bits = 4;
  const TierOptions endless;
  EXPECT_THAT(validate({small, rough, endless}).error().message, HasSubstr("more precise"));
  EXPECT_EQ(parse_tier("bits=4")->bits, 4u);
  for (const char* text : {"bits=0", "bits=17", "bits=2.5"}) {
    EXPECT_FALSE(parse_tier(text).has_value()) << text;
  }
}

// Lets go what it was told to.
class Told final : public prefetch::Policy {
 public:
  explicit Told(const std::vector<prefetch::PageNumber>& order) : order_(order) {}
  void on_access(const prefetch::Access&) override {}
  void on_insert(prefetch::PageNumber page, uint64_t) override { here_.insert(page); }
  void on_evict(prefetch::PageNumber page, uint64_t) override { here_.erase(page); }
  prefetch::PageNumber victim(uint64_t) override {
    for (const prefetch::PageNumber page : order_) {
      if (here_.contains(page)) return page;
    }
    ADD_FAILURE() << "nothing of it is there";
    return *here_.begin();
  }
  void set_aside(prefetch::PageNumber) override {}
  void put_back() override {}

 private:
  const std::vector<prefetch::PageNumber> order_;
  std::set<prefetch::PageNumber> here_;
};

class LowerTiersTest : public testing::Test {
 protected:
  // The last is endless. Evictions go in this order.
  static LowerTiers of(const std::vector<uint64_t>& pages,
                       const std::vector<prefetch::PageNumber>& order = {1, 2, 3, 4, 5}) {
    std::vector<TierOptions> tiers(pages.size() + 1);
    for (size_t i = 0; i < pages.size(); ++i) tiers[i].capacity_pages = pages[i];
    tiers.back().bits = 4;
    return {tiers, [&](uint64_t) { return std::make_unique<Told>(order); }};
  }
};

TEST_F(LowerTiersTest, WhatThePolicyNamesIsPushedOut) {
  LowerTiers tiers = of({2}, {2, 1, 3});
  EXPECT_EQ(tiers.nearest(1), std::nullopt);
  tiers.keep(1);
  tiers.keep(2);
  tiers.keep(3);
  EXPECT_EQ(tiers.nearest(1), 0u);
  EXPECT_EQ(tiers.nearest(2), 1u);
  EXPECT_EQ(tiers.nearest(3), 0u);
  EXPECT_EQ(tiers.written_pages(), 4u);
}
TEST_F(LowerTiersTest, WhatIsThereIsNotWrittenAgain) {
  LowerTiers tiers = of({1});
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
TEST_F(LowerTiersTest, CopiesOfWhatIsNearGoFirstAndAreNotWritten) {
  LowerTiers tiers = of({2}, {1, 2, 3});
  tiers.keep(1);
  tiers.keep(2);
  tiers.fetch(2);
  EXPECT_EQ(tiers.nearest(2), 0u);
  tiers.keep(3);
  EXPECT_EQ(tiers.nearest(1), 0u);
  EXPECT_EQ(tiers.nearest(2), std::nullopt);
  EXPECT_EQ(tiers.written_pages(), 3u);
  tiers.keep(2);  // again, as it is near no more
  EXPECT_EQ(tiers.nearest(2), 0u);
  EXPECT_EQ(tiers.nearest(1), 1u);
}
TEST_F(LowerTiersTest, WhatIsFetchedForNothingIsNoCopyAnyMore) {
  LowerTiers tiers = of({2}, {1, 2, 3});
  tiers.keep(1);
  tiers.keep(2);
  tiers.fetch(2);
  tiers.give_back(2);
  tiers.keep(3);
  EXPECT_EQ(tiers.nearest(1), 1u);
  EXPECT_EQ(tiers.nearest(2), 0u);
}
TEST_F(LowerTiersTest, WhatIsFetchedForNothingIsNotLostWithItsCopy) {
  LowerTiers tiers = of({1});
  tiers.keep(1);
  tiers.fetch(1);
  tiers.keep(2);
  EXPECT_EQ(tiers.nearest(1), std::nullopt);
  tiers.give_back(1);
  EXPECT_TRUE(tiers.nearest(1).has_value());
}
TEST_F(LowerTiersTest, PrecisionIsLostForGoodWhereItIsFetchedFromARougherTier) {
  LowerTiers tiers = of({1});
  tiers.keep(1);
  tiers.fetch(1);
  EXPECT_EQ(tiers.bits(1), 16u);
  tiers.keep(1);
  tiers.keep(2);
  EXPECT_EQ(tiers.bits(1), 16u);  // of it nothing rougher was fetched
  tiers.fetch(1);
  EXPECT_EQ(tiers.bits(1), 4u);
  tiers.keep(1);
  EXPECT_EQ(tiers.nearest(1), 0u);
  EXPECT_EQ(tiers.bits(1), 4u);
}

// However pages come and go: none is lost, no tier has more than it may, and each page lies where
// it was put or below.
RC_GTEST_PROP(LowerTiersProperty, NoPageIsLost, (uint32_t seed)) {
  Random random(seed);
  std::vector<TierOptions> options(3);
  options[0].capacity_pages = *rc::gen::inRange(1, 5);
  options[1].capacity_pages = *rc::gen::inRange(1, 5);
  const auto lru = prefetch::choose_policy("lru");
  LowerTiers tiers(options, [&](uint64_t pages) {
    prefetch::Setting setting;
    setting.budget_pages = pages;
    return lru->make(setting);
  });
  constexpr prefetch::PageNumber kPages = 16;
  enum class Where : uint8_t { kNowhere, kNear, kBelow };
  std::vector<Where> where(kPages, Where::kNowhere);
  for (int i = 0; i < 300; ++i) {
    prefetch::Access access;
    access.page = static_cast<prefetch::PageNumber>(random.below(kPages));
    tiers.on_access(access);
    Where& is = where[access.page];
    if (is == Where::kBelow) {
      tiers.fetch(access.page);
      is = Where::kNear;
    } else if (is == Where::kNowhere || random.below(2) == 0) {
      tiers.keep(access.page);
      is = Where::kBelow;
    } else {
      tiers.give_back(access.page);
      is = Where::kBelow;
    }
    std::array<uint64_t, 3> nearest = {};
    for (prefetch::PageNumber page = 0; page < kPages; ++page) {
      const auto tier = tiers.nearest(page);
      RC_ASSERT(where[page] != Where::kBelow || tier.has_value());
      if (tier) ++nearest[*tier];
    }
    RC_ASSERT(nearest[0] <= options[0].capacity_pages);
    RC_ASSERT(nearest[1] <= options[1].capacity_pages);
  }
}

}  // namespace
}  // namespace farpage::vtime
