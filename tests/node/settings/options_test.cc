#include "node/settings/options.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "pagetable/geometry.h"

namespace farpage {
namespace {

TEST(NodeOptions, DefaultsAreValid) {
  EXPECT_TRUE(NodeOptions().validate().has_value());
}

TEST(NodeOptions, EveryKeyOutOfRangeIsNamed) {
  struct Case {
    const char* key;
    void (*spoil)(NodeOptions&);
  };
  const Case cases[] = {
      {"node.listen", [](NodeOptions& o) { o.listen.clear(); }},
      {"node.state", [](NodeOptions& o) { o.state.clear(); }},
      {"pool_bytes", [](NodeOptions& o) { o.pool_bytes = 0; }},
      {"pool_bytes", [](NodeOptions& o) { o.pool_bytes = o.page_bytes; }},
      {"page_bytes", [](NodeOptions& o) { o.page_bytes = 0; }},
      {"page_bytes", [](NodeOptions& o) { o.page_bytes = kMaxPageBytes + 1; }},
      {"page_bytes", [](NodeOptions& o) { o.page_bytes = UINT64_MAX; }},
      {"node.eviction", [](NodeOptions& o) { o.eviction = "h2o"; }},
      {"node.reuse_ms", [](NodeOptions& o) { o.reuse_ms = 0; }},
      {"node.reuse_ms", [](NodeOptions& o) { o.reuse_ms = 60'001; }},
      {"node.io_threads", [](NodeOptions& o) { o.io_threads = 0; }},
      {"node.io_threads", [](NodeOptions& o) { o.io_threads = 257; }},
      {"node.lease_ms", [](NodeOptions& o) { o.lease_ms = 9; }},
      {"node.lease_ms", [](NodeOptions& o) { o.lease_ms = UINT64_MAX; }},
      {"node.max_clients", [](NodeOptions& o) { o.max_clients = 0; }},
      {"node.max_clients", [](NodeOptions& o) { o.max_clients = 100'001; }},
      {"node.max_lanes", [](NodeOptions& o) { o.max_lanes = 0; }},
      {"node.max_lanes", [](NodeOptions& o) { o.max_lanes = 1'025; }},
      {"node.max_staging_bytes", [](NodeOptions& o) { o.max_staging_bytes = o.page_bytes - 1; }},
      {"node.max_staging_bytes", [](NodeOptions& o) { o.max_staging_bytes = UINT64_MAX; }},
      {"node.staging_budget_bytes",
       [](NodeOptions& o) { o.staging_budget_bytes = o.max_staging_bytes - 1; }},
      {"node.max_requests_per_s", [](NodeOptions& o) { o.max_requests_per_s = 9; }},
      {"node.fill_bytes_per_s", [](NodeOptions& o) { o.fill_bytes_per_s = 64 * kKiB - 1; }},
      {"node.fill_bytes_per_s", [](NodeOptions& o) { o.fill_bytes_per_s = 1'024 * kGiB + 1; }},
      {"node.max_requests_per_s", [](NodeOptions& o) { o.max_requests_per_s = 10'000'001; }},
      {"node.scrub_bytes_per_s", [](NodeOptions& o) { o.scrub_bytes_per_s = 1'024 * kGiB + 1; }},
  };
  for (const Case& bad : cases) {
    NodeOptions options;
    bad.spoil(options);
    const auto refused = options.validate();
    ASSERT_FALSE(refused.has_value()) << bad.key;
    EXPECT_EQ(refused.error().code, Code::kInvalid);
    EXPECT_NE(refused.error().message.find(bad.key), std::string::npos) << refused.error().message;
  }
}

TEST(NodeOptions, LimitsThemselvesAreInRange) {
  NodeOptions options;
  options.reuse_ms = 60'000;
  options.lease_ms = 600'000;
  options.max_clients = 100'000;
  options.max_lanes = 1'024;
  options.max_staging_bytes = options.page_bytes;
  EXPECT_TRUE(options.validate().has_value());
}

TEST(NodeOptions, TheBudgetIsAQuarterOfThePoolUnlessItIsNamed) {
  NodeOptions options;
  options.pool_bytes = 16 * kGiB;
  EXPECT_EQ(options.client_budget_bytes(0), 4 * kGiB);
  options.pool_bytes = kMiB;
  EXPECT_EQ(options.client_budget_bytes(0), 512 * kMiB) << "two of the greatest stagings";
  EXPECT_EQ(options.client_budget_bytes(1), 512 * kMiB);
  EXPECT_EQ(options.client_budget_bytes(3), 1536 * kMiB) << "for each tenant";
  options.staging_budget_bytes = 300 * kMiB;
  EXPECT_EQ(options.client_budget_bytes(3), 300 * kMiB);
}

TEST(NodeOptions, APolicysMemoryIsThatOfItsSlotsAndOfEachTenantsPolicy) {
  NodeOptions options;
  options.page_bytes = 4 * kKiB;
  options.pool_bytes = kGiB;
  EXPECT_EQ(options.eviction_bytes(0), 0u);
  options.eviction = "lru";
  const uint64_t of_slots = options.eviction_bytes(0);
  EXPECT_GT(of_slots, kGiB / (8 * kKiB) * kKiB);
  EXPECT_EQ(options.eviction_bytes(7), of_slots);
  options.eviction = "windowed_recency:window=1000";
  EXPECT_EQ(options.eviction_bytes(1), of_slots + 4'000);
  EXPECT_EQ(options.eviction_bytes(3), of_slots + 3 * 4'000);
  options.evict = false;
  EXPECT_EQ(options.eviction_bytes(1), 0u);
}

TEST(NodeOptions, EveryFieldCanBeConfigured) {
  NodeOptions options;
  std::vector<std::string_view> keys;
  for (const ConfigField& field : fields(options)) keys.push_back(field.key);
  EXPECT_EQ(keys.size(), 21u);
  std::ranges::sort(keys);
  EXPECT_EQ(std::ranges::adjacent_find(keys), keys.end());
}

}  // namespace
}  // namespace farpage
