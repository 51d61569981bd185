#include "tier/ahead/page_numbering.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/random.h"

namespace farpage {
namespace {

// Keys whose homes are few, so that they stand in each other's way.
PageKey crowded_key(uint64_t number) {
  return {number % 3, number};
}

constexpr auto kNoneNeeded = [](prefetch::PageNumber) { return false; };
constexpr auto kNobodyTold = [](prefetch::PageNumber) {};

TEST(PageNumbering, KeysHaveNumbersOfTheirOwn) {
  PageNumbering known(8);
  for (uint32_t i = 0; i < 8; ++i) {
    EXPECT_EQ(known.number(crowded_key(i), kNoneNeeded, kNobodyTold), i);
  }
  for (uint32_t i = 0; i < 8; ++i) {
    EXPECT_EQ(known.number(crowded_key(i), kNoneNeeded, kNobodyTold), i);
    EXPECT_EQ(known.key(i), crowded_key(i));
  }
  EXPECT_EQ(known.find(crowded_key(8)), std::nullopt);
}

TEST(PageNumbering, LongestUnusedThatIsNotNeededMakesRoom) {
  PageNumbering known(3);
  for (uint32_t i = 0; i < 3; ++i) known.number(crowded_key(i), kNoneNeeded, kNobodyTold);
  known.use(0);
  const auto is_one = [](prefetch::PageNumber page) { return page == 1; };
  prefetch::PageNumber told = 99;
  const auto number = known.number(crowded_key(3), is_one, [&](auto page) { told = page; });
  EXPECT_EQ(number, 2u);
  EXPECT_EQ(told, 2u);
  EXPECT_EQ(known.find(crowded_key(2)), std::nullopt);
  EXPECT_EQ(known.find(crowded_key(1)), 1u);
}

TEST(PageNumbering, NothingIsForgottenThatIsNeeded) {
  PageNumbering known(3);
  for (uint32_t i = 0; i < 3; ++i) known.number(crowded_key(i), kNoneNeeded, kNobodyTold);
  EXPECT_EQ(known.number(
                crowded_key(3), [](auto) { return true; }, kNobodyTold),
            std::nullopt);
  for (uint32_t i = 0; i < 3; ++i) EXPECT_EQ(known.find(crowded_key(i)), i);
}

TEST(PageNumbering, AreWhatAMapWouldHold) {
  Random random(1);
  constexpr uint32_t kMost = 13;
  PageNumbering known(kMost);
  std::map<uint64_t, prefetch::PageNumber> held;
  for (int turn = 0; turn < 20'000; ++turn) {
    const uint64_t key = random.below(40);
    const auto number = known.number(crowded_key(key), kNoneNeeded, [&](auto page) {
      std::erase_if(held, [&](const auto& each) { return each.second == page; });
    });
    ASSERT_TRUE(number.has_value());
    held[key] = *number;
    ASSERT_LE(held.size(), kMost);
    std::set<prefetch::PageNumber> numbers;
    for (uint64_t each = 0; each < 40; ++each) {
      const auto found = known.find(crowded_key(each));
      ASSERT_EQ(found.has_value(), held.contains(each)) << turn;
      if (!found) continue;
      ASSERT_EQ(*found, held[each]);
      numbers.insert(*found);
    }
    ASSERT_EQ(numbers.size(), held.size());
  }
}

}  // namespace
}  // namespace farpage
