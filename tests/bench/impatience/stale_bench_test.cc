#include "bench/impatience/stale_bench.h"

#include <gtest/gtest.h>

#include <numeric>

#include "net/runtime/asio_runtime.h"
#include "tests/support/cluster.h"

namespace farpage {
namespace {

StaleBenchOptions few() {
  StaleBenchOptions options;
  options.page_bytes = 4 * kKiB;
  options.batch = 16;
  options.lanes = 2;
  options.pool_bytes = 256 * kKiB;
  options.seconds = 0.1;
  return options;
}

// Which pages the node has matters to nobody: each is older than what was asked for.
TEST(StaleBench, EveryPageIsStaleAndCallbacksAreTimed) {
  NodeOptions node = Cluster::small_options();
  node.lease_ms = 20'000;  // however long this machine lets a thread wait
  Cluster cluster(Path::kShm, node);
  const auto client = cluster.connect();
  const auto result = run_stale_bench(
      *client, cluster.client_runtime(), few(), [] { return false; }, [](uint64_t, uint64_t) {});
  ASSERT_TRUE(result.has_value()) << result.error().message;
  const uint64_t all = std::accumulate(result->verdicts.begin(), result->verdicts.end(), 0ul);
  EXPECT_GE(all, 2u * 16);
  EXPECT_EQ(all % 16, 0u);
  EXPECT_EQ(result->verdicts[static_cast<size_t>(Reason::kStale)], all);
  EXPECT_GT(result->pages_per_s, 0);
  EXPECT_GE(result->callback_wait_ns.count(), 1u);
  EXPECT_GE(static_cast<double>(result->longest_wait_ns) * 1.02,
            result->callback_wait_ns.quantile(1));
  EXPECT_EQ(result->unreachable_looks, 0u);
}

TEST(StaleBenchOptions, RefusesWhatSaysNothing) {
  EXPECT_TRUE(few().validate().has_value());
  const auto refuses = [](auto change) {
    StaleBenchOptions options = few();
    change(options);
    return !options.validate().has_value();
  };
  EXPECT_TRUE(refuses([](auto& options) { options.batch = 0; }));
  EXPECT_TRUE(refuses([](auto& options) { options.lanes = 0; }));
  EXPECT_TRUE(refuses([](auto& options) { options.page_bytes = 1; }));
  EXPECT_TRUE(refuses([](auto& options) { options.pool_bytes = 1; }));
  EXPECT_TRUE(refuses([](auto& options) { options.seconds = 0; }));
}

}  // namespace
}  // namespace farpage
