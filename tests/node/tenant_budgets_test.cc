// Of what clients can make a node hold, no tenant's take another's.
#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "node/tenants.h"
#include "sim/network/sim_fabric.h"
#include "sim/network/world.h"
#include "tests/support/seeds.h"
#include "tests/support/temp_dir.h"

namespace farpage {
namespace {

constexpr size_t kA = 0;
constexpr size_t kB = 1;
constexpr uint64_t kEach = 256 * kKiB;
// Half of 4 MiB evenly, half by quota.
constexpr uint64_t kBudgetA = kMiB + kMiB / 2;
constexpr uint64_t kBudgetB = kMiB + kMiB;

// Two tenants, whose quotas are a quarter and a half of the pool.
class TenantBudgets : public ::testing::Test {
 protected:
  TenantBudgets() {
    NodeOptions options;
    options.page_bytes = 4 * kKiB;
    options.pool_bytes = 4 * kMiB;
    options.scrub_bytes_per_s = 0;
    options.max_staging_bytes = kMiB;
    options.staging_budget_bytes = 4 * kMiB;
    options.state = dir_ / "node.state";
    const std::vector<TenantOptions> tenants = {{"a", "a.token", kMiB, 0},
                                                {"b", "b.token", 2 * kMiB, 0}};
    const std::array<Fabric*, 2> fabrics = {&first_, &second_};
    const std::array<PoolHandoff*, 2> keepers = {};
    nodes_ = TenantNodes::create(options, tenants, first_.runtime(), fabrics, keepers).value();
  }

  Refusal hello(size_t tenant, ClientId client, uint64_t bytes) {
    std::optional<Reply> answer;
    nodes_->tenant(tenant).handle(client, HelloRequest{kControlProtocol, kPageFormat, bytes},
                                  [&](Reply reply) { answer = std::move(reply); });
    world_.run_until(world_.now_ns() + kMillisecond);
    if (!answer) return {Code::kAborted, "no answer"};
    const auto* refusal = std::get_if<Refusal>(&*answer);
    return refusal == nullptr ? Refusal{Code::kOk, {}} : *refusal;
  }
  ClientId stranger(size_t tenant) { return nodes_->tenant(tenant).connected().value(); }

  TempDir dir_;
  sim::World world_{1};
  sim::SimFabric first_{world_, {}};
  sim::SimFabric second_{world_, {}};
  std::unique_ptr<TenantNodes> nodes_;
};

TEST_F(TenantBudgets, OneThatHasUsedUpItsOwnTakesNothingOfTheOthers) {
  for (int i = 0; i < 6; ++i) ASSERT_EQ(hello(kA, stranger(kA), kEach).code, Code::kOk);
  const Refusal refused = hello(kA, stranger(kA), kEach);
  EXPECT_EQ(refused.code, Code::kExhausted);
  EXPECT_NE(refused.message.find("1.5 MiB of the 1.5 MiB that tenant.a.staging_budget_bytes"),
            std::string::npos)
      << refused.message;
  for (int i = 0; i < 8; ++i) ASSERT_EQ(hello(kB, stranger(kB), kEach).code, Code::kOk);
  EXPECT_EQ(hello(kB, stranger(kB), 0).code, Code::kOk);
}

TEST_F(TenantBudgets, AreShownForEachAndForTheNode) {
  ASSERT_EQ(hello(kA, stranger(kA), kMiB).code, Code::kOk);
  ASSERT_EQ(hello(kA, stranger(kA), kBudgetA - kMiB).code, Code::kOk);
  ASSERT_EQ(hello(kA, stranger(kA), kEach).code, Code::kExhausted);
  ASSERT_EQ(hello(kB, stranger(kB), kEach).code, Code::kOk);
  const StatusReply all = nodes_->status();
  EXPECT_EQ(all.budget.bytes, 4 * kMiB);
  EXPECT_EQ(all.budget.granted_bytes, kBudgetA + kEach);
  EXPECT_EQ(all.budget.refused, 1u);
  ASSERT_EQ(all.tenants.size(), 2u);
  EXPECT_EQ(all.tenants[kA].budget.bytes, kBudgetA);
  EXPECT_EQ(all.tenants[kA].budget.granted_bytes, kBudgetA);
  EXPECT_EQ(all.tenants[kA].budget.refused, 1u);
  EXPECT_EQ(all.tenants[kB].budget.bytes, kBudgetB);
  EXPECT_EQ(all.tenants[kB].budget.granted_bytes, kEach);
  EXPECT_EQ(all.tenants[kB].budget.refused, 0u);
  const StatusReply own = nodes_->tenant(kB).status();
  EXPECT_EQ(own.budget.bytes, kBudgetB) << "the node's is none of its business";
  EXPECT_EQ(own.budget.granted_bytes, kEach);
}

// With any load by the other's clients, a tenant is refused exactly when its own sum says so.
TEST_F(TenantBudgets, RacesForTheLastBytesAreWithinATenant) {
  const uint64_t seed = seeds_from_environment(1).first;
  SCOPED_TRACE("FARPAGE_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  struct Held {
    ClientId client;
    uint64_t bytes;
  };
  std::array<std::vector<Held>, 2> held;
  std::array<uint64_t, 2> sums = {};
  const std::array<uint64_t, 2> most = {kBudgetA, kBudgetB};
  uint64_t refused = 0;
  for (int step = 0; step < 1'000; ++step) {
    const size_t tenant = random() % 2;
    if (random() % 5 < 3) {
      const uint64_t bytes = (1 + random() % 128) * 4 * kKiB;
      const ClientId client = stranger(tenant);
      const bool fits = sums[tenant] + bytes <= most[tenant];
      ASSERT_EQ(hello(tenant, client, bytes).code, fits ? Code::kOk : Code::kExhausted) << step;
      refused += fits ? 0 : 1;
      if (fits) {
        held[tenant].push_back({client, bytes});
        sums[tenant] += bytes;
      } else {
        nodes_->tenant(tenant).disconnected(client);
      }
    } else if (!held[tenant].empty()) {
      std::swap(held[tenant][random() % held[tenant].size()], held[tenant].back());
      nodes_->tenant(tenant).disconnected(held[tenant].back().client);
      sums[tenant] -= held[tenant].back().bytes;
      held[tenant].pop_back();
      world_.run_until(world_.now_ns() + kMillisecond);
    }
    ASSERT_EQ(nodes_->status().budget.granted_bytes, sums[kA] + sums[kB]);
  }
  EXPECT_GT(refused, 50u);
}

}  // namespace
}  // namespace farpage
