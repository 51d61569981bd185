#include "lab/recovery/recovery_bench.h"

#include <gtest/gtest.h>

namespace farpage {
namespace {

TEST(RecoveryBench, HedgesCutTheTailAndStayFew) {
  const HedgingResult result = measure_hedging(1);
  EXPECT_GE(result.unhedged_p999_ns, 150'000u) << "as it was meant";
  EXPECT_LE(static_cast<double>(result.hedged_p999_ns),
            0.3 * static_cast<double>(result.unhedged_p999_ns));
  EXPECT_LT(result.extra_reads, 0.03);
  EXPECT_GT(result.hedges_won, 0u);
  EXPECT_EQ(result.wrong_bytes, 0u);
}

TEST(RecoveryBench, NodeDiesUnderLoadAndEveryVerdictIsInTime) {
  const DeathResult result = measure_death(1);
  EXPECT_GT(result.before.pages, 5'000u) << "a load";
  EXPECT_EQ(result.before.ready, result.before.pages);
  EXPECT_EQ(result.after.ready, result.after.pages);
  EXPECT_LE(result.after.p99_ns, result.before.p99_ns * 3 / 2);
  EXPECT_EQ(result.late, 0u);
  EXPECT_EQ(result.wrong_bytes, 0u);
}

}  // namespace
}  // namespace farpage
