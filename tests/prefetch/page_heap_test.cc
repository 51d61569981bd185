#include "prefetch/page_heap.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <limits>
#include <tuple>
#include <vector>

#include "base/random.h"

namespace farpage::prefetch {
namespace {

TEST(PageHeap, OfEqualScoresTheFirstIsOnTop) {
  PageHeap heap;
  heap.push(7, 1);
  heap.push(3, 1);
  heap.push(5, 0.5);
  EXPECT_EQ(heap.top(), 5u);
  heap.change(5, 1);
  EXPECT_EQ(heap.top(), 7u);
  heap.remove(7);
  EXPECT_EQ(heap.top(), 3u);
  EXPECT_FALSE(heap.contains(7));
}

TEST(PageHeap, WhatWasSetAsideComesBackWhereItWas) {
  PageHeap heap;
  for (const PageNumber page : {7u, 3u, 5u, 9u}) heap.push(page, page == 9 ? 2 : 1);
  heap.set_aside(7);
  EXPECT_FALSE(heap.contains(7));
  EXPECT_EQ(heap.top(), 3u);
  heap.set_aside(3);
  heap.remove(9);
  EXPECT_EQ(heap.top(), 5u);
  heap.put_back();
  for (const PageNumber page : {7u, 3u, 5u}) {
    EXPECT_EQ(heap.top(), page);
    heap.remove(page);
  }
  EXPECT_EQ(heap.size(), 0u);
}

TEST(PageHeap, WhatIsNoNumberSpoilsTheOrderAndNoMore) {
  PageHeap heap;
  heap.push(1, 1);
  heap.push(2, 2);
  heap.change(1, std::numeric_limits<double>::quiet_NaN());
  EXPECT_TRUE(heap.contains(heap.top()));
  heap.remove(1);
  EXPECT_EQ(heap.top(), 2U);
}

struct Entry {
  double score;
  size_t pushed;
  PageNumber page;
};

RC_GTEST_PROP(PageHeapProperty, TopIsTheLowest, (uint32_t seed)) {
  Random random(seed);
  PageHeap heap;
  std::vector<Entry> model;
  for (size_t turn = 1; turn < 300; ++turn) {
    const auto page = static_cast<PageNumber>(random.below(40));
    const auto score = static_cast<double>(random.below(6));
    const auto found = std::ranges::find(model, page, &Entry::page);
    RC_ASSERT(heap.contains(page) == (found != model.end()));
    if (found == model.end()) {
      heap.push(page, score);
      model.push_back({score, turn, page});
    } else if (random.below(2) == 0) {
      heap.change(page, score);
      found->score = score;
    } else {
      heap.remove(page);
      model.erase(found);
    }
    RC_ASSERT(heap.size() == model.size());
    if (!model.empty() && random.below(8) == 0) {
      const PageNumber aside = model[random.below(model.size())].page;
      heap.set_aside(aside);
      RC_ASSERT(!heap.contains(aside));
      heap.put_back();
    }
    if (model.empty() || random.below(4) > 0) continue;
    const auto lowest = std::ranges::min_element(
        model, {}, [](const Entry& entry) { return std::tuple(entry.score, entry.pushed); });
    RC_ASSERT(heap.top() == lowest->page);
  }
}

}  // namespace
}  // namespace farpage::prefetch
