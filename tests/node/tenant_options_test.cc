#include <gtest/gtest.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "node/tenants.h"
#include "sim/network/sim_fabric.h"
#include "sim/network/world.h"
#include "tests/support/engine.h"
#include "tests/support/temp_dir.h"

namespace farpage {
namespace {

constexpr uint64_t kPageBytes = 4 * kKiB;

NodeOptions small_options() {
  NodeOptions options;
  options.page_bytes = kPageBytes;
  options.pool_bytes = 4 * kMiB;
  options.lease_ms = 1'000;
  options.scrub_bytes_per_s = 0;
  return options;
}
std::vector<TenantOptions> two_tenants() {
  return {{"a", "a.token", kMiB}, {"b", "b.token", 2 * kMiB}};
}

// The run before had no tenants, and its clients may still read what they have a view of.
TEST(TenantsWait, ForTheLeaseOfARunThatHadOthers) {
  const TempDir dir;
  sim::World world(1);
  sim::SimFabric first(world, {});
  sim::SimFabric second(world, {});
  NodeOptions options = small_options();
  options.state = dir / "node.state";
  make_memory_node(options, first.runtime(), first).value().reset();
  const uint64_t started_ns = world.now_ns();
  const std::array<Fabric*, 2> fabrics = {&first, &second};
  const std::array<PoolHandoff*, 2> keepers = {};
  const auto nodes =
      TenantNodes::create(options, two_tenants(), first.runtime(), fabrics, keepers).value();
  std::array<uint64_t, 2> answered_ns = {};
  for (const size_t tenant : {0, 1}) {
    NodeService& service = nodes->tenant(tenant);
    const ClientId client = service.connected().value();
    bool greeted = false;
    service.handle(client, HelloRequest{}, [&](const Reply&) { greeted = true; });
    ASSERT_TRUE(world.wait_until(world.now_ns(), [&] { return greeted; }));
    RemoveRequest remove;
    remove.keys = {test_key(1)};
    remove.patience_ns = 10 * kSecond;
    service.handle(client, std::move(remove), [&, tenant](const Reply& reply) {
      EXPECT_TRUE(std::holds_alternative<RemoveReply>(reply));
      answered_ns[tenant] = world.now_ns();
    });
  }
  world.run_until(started_ns + 5 * kSecond);
  for (const uint64_t answered : answered_ns) {
    EXPECT_GE(answered, started_ns + options.lease_ms * kMillisecond);
  }
}

void expect_refused(const std::vector<TenantOptions>& tenants, const std::string& part) {
  const auto valid = validate(tenants, small_options());
  ASSERT_FALSE(valid.has_value()) << part;
  EXPECT_EQ(valid.error().code, Code::kInvalid);
  EXPECT_NE(valid.error().message.find(part), std::string::npos) << valid.error().message;
}

TEST(TenantOptions, WhatCannotBeIsRefusedByName) {
  EXPECT_TRUE(validate(two_tenants(), small_options()).has_value());
  expect_refused({{"a", "t", 0}}, "tenant.a.quota_bytes is 0");
  expect_refused({{"a", "t", kPageBytes / 2}}, "tenant.a.quota_bytes is 2048");
  expect_refused({{"a", "", kMiB}}, "tenant.a.token_file is empty");
  expect_refused({{"a", "t", kMiB}, {"a", "u", kMiB}}, "there are 2 tenants 'a'");
  expect_refused({{"a b", "t", kMiB}}, "'a b' is not a valid tenant name");
  expect_refused({{"", "t", kMiB}}, "'' is not a valid tenant name");
  expect_refused({{std::string(65, 'x'), "t", kMiB}}, "is not a valid tenant name");
  expect_refused(
      {{"a", "t", 3 * kMiB}, {"b", "u", 2 * kMiB}},
      "more than node.pool_bytes, which is 4 MiB: for tenant.b.quota_bytes = 2 MiB there "
      "are 1 MiB left");
  expect_refused({{"a", "t", kMiB}, {"b", "u", UINT64_MAX}}, "tenant.b.quota_bytes");
  expect_refused({{"a", "t", kMiB, kGiB}, {"b", "u", kMiB, 25 * kMiB}},
                 "more than node.staging_budget_bytes, which is 1 GiB: for "
                 "tenant.b.staging_budget_bytes = 25 MiB there are 0 B left");
  expect_refused({{"a", "t", kMiB, kPageBytes - 1}}, "tenant.a.staging_budget_bytes is 4.0 KiB");
  EXPECT_TRUE(
      validate(std::vector<TenantOptions>{{"a", "t", kMiB, 800 * kMiB}, {"b", "u", kMiB, 0}},
               small_options())
          .has_value())
      << "the rest is the other's";
  NodeOptions small = small_options();
  small.max_staging_bytes = small.staging_budget_bytes = 2 * kPageBytes;
  const auto valid = validate(two_tenants(), small);
  ASSERT_FALSE(valid.has_value()) << "a quarter of two pages, and a quarter of one by quota";
  EXPECT_NE(valid.error().message.find("tenant.a.staging_budget_bytes is 3 KiB"), std::string::npos)
      << valid.error().message;
  expect_refused(std::vector<TenantOptions>(65, {"a", "t", kMiB}), "65 tables [tenant.NAME]");
}

}  // namespace
}  // namespace farpage
