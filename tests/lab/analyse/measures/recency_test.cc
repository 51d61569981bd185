#include "lab/analyse/measures/recency.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "base/random.h"

namespace farpage::analyse {
namespace {

TEST(Recency, RanksByHowManyOthersWereUsedSince) {
  Recency recency;
  for (const prefetch::PageNumber page : {0U, 1U, 2U, 1U}) recency.use(page);
  EXPECT_EQ(recency.rank(1), 0u);
  EXPECT_EQ(recency.rank(2), 1u);
  EXPECT_EQ(recency.rank(0), 2u);
  EXPECT_EQ(recency.rank(3), std::nullopt);
  EXPECT_EQ(recency.pages(), 3u);
}

RC_GTEST_PROP(RecencyProperty, IsThatOfAList, (uint32_t seed)) {
  Random random(seed);
  Recency recency;
  std::vector<prefetch::PageNumber> list;  // the latest first
  const uint64_t pages = 1 + random.below(90);
  for (int turn = 0; turn < 1'000; ++turn) {
    const auto page = static_cast<prefetch::PageNumber>(random.below(pages));
    const auto found = std::ranges::find(list, page);
    const auto rank = recency.rank(page);
    RC_ASSERT(rank.has_value() == (found != list.end()));
    if (rank) RC_ASSERT(*rank == static_cast<uint64_t>(found - list.begin()));
    if (found != list.end()) list.erase(found);
    list.insert(list.begin(), page);
    recency.use(page);
    RC_ASSERT(recency.pages() == list.size());
  }
}

}  // namespace
}  // namespace farpage::analyse
