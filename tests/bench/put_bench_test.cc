#include "bench/put_bench.h"

#include <gtest/gtest.h>

#include "tests/support/cluster.h"

namespace farpage {
namespace {

class PutBench : public ::testing::Test {
 protected:
  PutBenchResult run(bool in_place) {
    PutBenchOptions options = {.page_bytes = 4 * kKiB,
                               .batch = 2,
                               .pool_bytes = 64 * kKiB,
                               .seconds = 60,
                               .in_place = in_place};
    // The client offers the file with a put, and goes on until the node has mapped it.
    const uint64_t end_ns = client_->clock().now_ns() + 30 * kSecond;
    uint64_t puts = 0;
    auto result = run_put_bench(*client_, options, [&] {
      if (client_->clock().now_ns() > end_ns) return true;
      return in_place ? puts_in_place() >= 2 * options.batch : ++puts > 8;
    });
    EXPECT_TRUE(result) << result.error().message;
    return result ? std::move(*result) : PutBenchResult{};
  }

  uint64_t puts_in_place() {
    return client_->node_status(client_->clock().now_ns() + 5 * kSecond).value().puts_in_place;
  }

  Cluster cluster_;
  const std::unique_ptr<Client> client_ = cluster_.connect({.staging_bytes = 1 * kMiB});
};

TEST_F(PutBench, TheNodeReadsInPlaceWhatIsPutFromAFile) {
  const PutBenchResult result = run(true);
  EXPECT_GT(result.pages_in_place, 0u);
  EXPECT_GE(result.pages[0], result.pages_in_place);
}

TEST_F(PutBench, OtherMemoryGoesThroughTheStaging) {
  const PutBenchResult result = run(false);
  EXPECT_EQ(result.pages_in_place, 0u);
  EXPECT_GT(result.pages[0], 0u);
  EXPECT_EQ(puts_in_place(), 0u);
}

}  // namespace
}  // namespace farpage
