#include "lab/kvhl/hierarchy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "lab/kvhl/markov.h"
#include "prefetch/per_page.h"

namespace farpage::kvhl {
namespace {

using prefetch::Access;
using prefetch::PageNumber;
using testing::ElementsAre;

// The page with the lowest number goes first.
class ByNumber final : public prefetch::Scorer {
 public:
  void on_access(const Access&) override {}
  double score(PageNumber page, uint64_t) const override { return page; }
};

constexpr TierSpecs kSmall = {{
    {"a", 200, 1, 2, 100},
    {"b", 200, 10, 20, 50},
    {"c", 200, 100, 200, 20},
    {"d", 1'000, 1'000, 2'000, 10},
}};

Workload workload_of(const std::vector<PageNumber>& pages, size_t of_pages) {
  Workload workload = {"test", std::vector<uint64_t>(of_pages, 100), {}};
  for (const PageNumber page : pages) {
    workload.accesses.push_back({workload.accesses.size(), workload.accesses.size(), page});
  }
  return workload;
}

RunResult run_of(const std::vector<PageNumber>& pages, prefetch::Prefetcher* prefetcher = nullptr,
                 double dequantisation_ms = 0) {
  const Workload workload = workload_of(pages, 10);
  ByNumber scorer;
  return Hierarchy(kSmall, dequantisation_ms, workload, scorer, prefetcher).run();
}

TEST(Hierarchy, APageThatIsNewComesThroughTheLastTier) {
  const RunResult result = run_of({0, 0}, nullptr, 0.5);
  EXPECT_EQ(result.misses, 1u);
  EXPECT_THAT(result.hits, ElementsAre(1, 0, 0, 0));
  EXPECT_THAT(result.peak_bytes, ElementsAre(100, 0, 0, 100));
  // From d to a: 1000 + 2 + 100 bytes at 10 a ms + 0.5; then a hit: 1 + 0.5.
  EXPECT_DOUBLE_EQ(result.latency_ms, 1'012.5 + 1.5);
  EXPECT_EQ(result.demand_bytes, 100u);
}

TEST(Hierarchy, WhatMakesRoomGoesOneTierDownAndCosts) {
  const RunResult result = run_of({0, 1, 2, 0});
  // 0 makes room for 2, and 1 for 0, which is in b until then.
  EXPECT_EQ(result.evictions, 2u);
  EXPECT_THAT(result.hits, ElementsAre(0, 1, 0, 0));
  const double new_page_ms = 1'000 + 2 + 10;
  const double demotion_ms = 1 + 20 + 2;
  const double promotion_ms = 10 + 2 + 2;
  EXPECT_DOUBLE_EQ(result.latency_ms, 3 * new_page_ms + 2 * demotion_ms + promotion_ms);
  EXPECT_EQ(result.demand_bytes, 600u);
  EXPECT_THAT(result.peak_bytes, ElementsAre(200, 200, 0, 100));
}

TEST(Hierarchy, DemotionsCascade) {
  const RunResult result = run_of({0, 1, 2, 3, 4});
  // 2 makes room in b for itself: 0 goes on to c.
  EXPECT_EQ(result.evictions, 3u + 1u);
  EXPECT_THAT(result.peak_bytes, ElementsAre(200, 200, 100, 100));
}

TEST(Hierarchy, PrefetchesAreChargedAndCountedAsUsedOrNot) {
  Markov markov(1);
  const RunResult used = run_of({0, 1, 2, 3, 0, 1}, &markov);
  // At the second 0, 1 is brought from b; it is used. At the second 1, 2 is brought, and is not.
  EXPECT_EQ(used.prefetches, 2u);
  EXPECT_EQ(used.useful_prefetches, 1u);
  EXPECT_EQ(used.wasted_prefetches, 1u);
  EXPECT_EQ(used.prefetch_bytes, 200u);
}

}  // namespace
}  // namespace farpage::kvhl
