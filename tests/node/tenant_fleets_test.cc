// Nodes with tenants that are each other's replicas, in virtual time: every tenant's nodes are a
// fleet of their own.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "node/tenants.h"
#include "pagetable/geometry.h"
#include "pagetable/placement.h"
#include "sim/network/network.h"
#include "sim/network/sim_fabric.h"
#include "sim/network/sim_region.h"
#include "sim/sim_connection.h"
#include "sim/sim_pool_keeper.h"
#include "sim/sim_register.h"
#include "sim/sim_wire.h"
#include "tests/support/engine.h"
#include "tests/support/temp_dir.h"

namespace farpage {
namespace {

constexpr uint64_t kPageBytes = 512;
constexpr uint64_t kSlotBytes = kPageBytes + sizeof(PageHeader);
constexpr uint64_t kSettleNs = 200 * kMillisecond;  // all have reached each other
constexpr size_t kNodes = 3;
constexpr size_t kA = 0;
constexpr size_t kB = 1;
constexpr std::array kTenants = {kA, kB};

enum class Membership : uint8_t { kList, kRegister };

NodeId id_of(size_t node) {
  return node_id("n" + std::to_string(node));
}

// Three processes with two tenants each, and a client of each tenant.
class TenantFleets : public testing::TestWithParam<Membership> {
 protected:
  TenantFleets() {
    options_.page_bytes = kPageBytes;
    options_.pool_bytes = 4096 * kSlotBytes;
    options_.reuse_ms = 2;
    options_.lease_ms = 20;
    options_.scrub_bytes_per_s = 0;
    for (size_t node = 0; node < kNodes; ++node) list_.members.push_back({id_of(node), 0});
    list_.give_slots();
    for (const size_t tenant : kTenants) {
      registers_[tenant] = std::make_unique<SimRegister>(wire_, kNodes + 2, list_,
                                                         SimRegisterOptions{0, kSecond, 0});
    }
    for (size_t node = 0; node < kNodes; ++node) start(node, {kA, kB});
    for (const size_t tenant : kTenants) connect(tenant);
    run_for(kSettleNs);
  }
  ~TenantFleets() override {
    for (const size_t tenant : kTenants) engines_[tenant].reset();
    for (const size_t tenant : kTenants) clients_[tenant].reset();
    for (size_t node = 0; node < kNodes; ++node) end(node);
  }

  bool has_register() const { return GetParam() == Membership::kRegister; }
  TenantOptions tenant(size_t number) const {
    return {number == kA ? "a" : "b", "token", quota_slots_[number] * kSlotBytes};
  }

  // How one host reaches the nodes of one tenant's fleet.
  struct Reach {
    std::vector<std::unique_ptr<SimDialer>> dialers;
    std::unique_ptr<EpochRegister> epochs;
  };
  Fleet fleet(Reach& reach, size_t host, size_t tenant, Runtime& runtime) {
    for (size_t node = 0; node < kNodes; ++node) {
      reach.dialers.push_back(std::make_unique<SimDialer>(
          wire_, runtime,
          [this, host, tenant, &runtime, node] { return open(host, tenant, runtime, node); }));
    }
    if (has_register()) reach.epochs = registers_[tenant]->access(host, runtime);
    return {list_, reach.epochs.get(), options_.lease_ms * kMillisecond,
            [&reach](NodeId node) -> ControlDialer& {
              size_t number = 0;
              while (id_of(number) != node) ++number;
              return *reach.dialers[number];
            }};
  }
  std::shared_ptr<SimConnection> open(size_t host, size_t tenant, Runtime& runtime, size_t node) {
    Process& process = processes_[node];
    const auto served = std::ranges::find(process.tenants, tenant);
    if (process.nodes == nullptr || served == process.tenants.end()) return nullptr;
    if (parted_.contains({tenant, host, node})) return nullptr;
    connections_.push_back(std::make_shared<SimConnection>(
        wire_, SimEnd{host, runtime}, SimEnd{node, process.fabrics[0]->runtime()},
        process.nodes->tenant(static_cast<size_t>(served - process.tenants.begin()))));
    return connections_.back();
  }

  void start(size_t node, std::vector<size_t> tenants) {
    Process& process = processes_[node];
    process.tenants = std::move(tenants);
    NodeOptions options = options_;
    options.state = dir_ / ("state" + std::to_string(node));
    std::vector<TenantOptions> tables;
    std::vector<Fabric*> fabrics;
    std::vector<PoolHandoff*> keepers;
    std::vector<Fleet> fleets;
    for (const size_t number : process.tenants) {
      tables.push_back(tenant(number));
      keepers.push_back(is_held_ ? &keepers_[{node, number}] : nullptr);
      process.fabrics.push_back(std::make_unique<sim::SimFabric>(world_, sim::SimOptions{}));
      fabrics.push_back(process.fabrics.back().get());
      process.reaches.push_back(std::make_unique<Reach>());
      fleets.push_back(fleet(*process.reaches.back(), node, number, process.fabrics[0]->runtime()));
    }
    process.nodes = TenantNodes::create(options, tables, process.fabrics[0]->runtime(), fabrics,
                                        keepers, fleets, id_of(node))
                        .value();
  }
  // As if its process were killed.
  void end(size_t node) {
    for (auto& connection : connections_) {
      if (connection->node() == node) {
        connection->node_gone();
        connection->lose_caller_end(wire_.delay());
      } else if (connection->caller() == node) {
        connection->lose_node_end();
      }
    }
    std::erase_if(connections_, [&](const auto& each) { return each->node() == node; });
    Process& process = processes_[node];
    process.nodes.reset();
    for (auto& fabric : process.fabrics) {
      fabric->die();
      ended_.push_back(std::move(fabric));
    }
    for (auto& reach : process.reaches) ended_reaches_.push_back(std::move(reach));
    process.fabrics.clear();
    process.reaches.clear();
  }

  void connect(size_t tenant) {
    client_fabrics_[tenant] = std::make_unique<sim::SimFabric>(world_, sim::SimOptions{});
    sim::SimFabric& fabric = *client_fabrics_[tenant];
    ClientOptions options;
    options.staging_bytes = 64 * kKiB;
    clients_[tenant] =
        Client::connect(options, fabric.runtime(), fabric,
                        fleet(client_reaches_[tenant], kNodes + tenant, tenant, fabric.runtime()))
            .value();
    run_for(kSettleNs);
    engines_[tenant].emplace(*clients_[tenant], kPageBytes, 4);
  }

  void run_for(uint64_t duration_ns) { world_.run_until(world_.now_ns() + duration_ns); }
  bool wait_for(const std::function<bool()>& what) {
    const uint64_t until = world_.now_ns() + 20 * kSecond;
    while (!what() && world_.now_ns() < until) run_for(kMillisecond);
    return what();
  }

  PutResult put(size_t tenant, uint64_t number, uint64_t put_number) {
    return engines_[tenant]->put(test_key(number), put_number);
  }
  // Until it is acknowledged: a node that has begun anew is not reached at once.
  PutResult put_patiently(size_t tenant, uint64_t number, uint64_t put_number) {
    PutResult result;
    EXPECT_TRUE(
        wait_for([&] { return (result = put(tenant, number, put_number)).code == Code::kOk; }));
    return result;
  }
  std::optional<uint64_t> fetch(size_t tenant, uint64_t number) {
    const PageVerdict verdict = engines_[tenant]->fetch(test_key(number));
    if (verdict.verdict != Verdict::kReady) return std::nullopt;
    return engines_[tenant]->put_number_of(test_key(number));
  }
  // Of a session beside the tenant's client, with whatever requests this test makes up.
  Reply ask(size_t node, size_t number, ClientId session, Request request) {
    auto answer = std::make_shared<std::optional<Reply>>();
    processes_[node].nodes->tenant(number).handle(
        session, std::move(request), [answer](Reply reply) { *answer = std::move(reply); });
    EXPECT_TRUE(wait_for([&] { return answer->has_value(); }));
    return std::move(**answer);
  }
  struct Session {
    ClientId id = 0;
    Geometry geometry;
  };
  Session greeted(size_t node, size_t number) {
    const ClientId id = processes_[node].nodes->tenant(number).connected().value();
    HelloRequest hello;
    hello.epoch = {list_.number, list_.identity()};
    const auto reply = std::get<HelloReply>(ask(node, number, id, hello));
    return {id, {reply.page_bytes, reply.slots, reply.buckets}};
  }
  ReportReply report(size_t node, size_t number, const PageKey& key) {
    ReportRequest request;
    request.keys = {key};
    return std::get<ReportReply>(ask(node, number, greeted(node, number).id, request));
  }
  // Flips a bit of the page in the tenant's pool.
  void damage(size_t node, size_t number, const PageKey& key) {
    const Session session = greeted(node, number);
    auto lane = std::get<OpenLaneReply>(ask(node, number, session.id, OpenLaneRequest{}));
    std::byte* pool = world_.network()->find(sim::key_of(lane.pool).value())->data;
    for (uint64_t slot = 0; slot < session.geometry.slots; ++slot) {
      std::byte* page = pool + session.geometry.header_offset(slot);
      PageHeader header;
      std::memcpy(&header, page, sizeof header);
      if (header.key != key) continue;
      page[sizeof header + 1] ^= std::byte{1};
      return;
    }
    FAIL() << "no such page";
  }
  // A key whose primary is this node.
  uint64_t number_at(size_t node) {
    for (uint64_t number = 0;; ++number) {
      if (Placement(list_).replicas(test_key(number)).primary() == node) return number;
    }
  }
  StatusReply status(size_t node, size_t tenant) {
    return processes_[node].nodes->tenant(tenant).status();
  }
  uint64_t held(size_t tenant) {
    uint64_t sum = 0;
    for (size_t node = 0; node < kNodes; ++node) {
      if (processes_[node].nodes != nullptr) sum += status(node, tenant).slots_live;
    }
    return sum;
  }
  bool all_reached(size_t node, size_t tenant) {
    return std::ranges::all_of(status(node, tenant).fleet.others, &MemberStatus::reached);
  }

  struct Process {
    std::vector<size_t> tenants;
    std::vector<std::unique_ptr<sim::SimFabric>> fabrics;  // by tenant, as the rest
    std::vector<std::unique_ptr<Reach>> reaches;
    std::unique_ptr<TenantNodes> nodes;
  };

  TempDir dir_;
  bool is_held_ = false;                                        // every process that starts
  std::map<std::pair<size_t, size_t>, SimPoolKeeper> keepers_;  // by node and tenant
  NodeOptions options_;
  std::array<uint64_t, 2> quota_slots_ = {256, 512};
  sim::World world_{1};
  SimWire wire_{world_, 10 * kMicrosecond, 200 * kMicrosecond};
  Epoch list_ = {.number = 1, .replicas = 2, .seed = 1, .page_bytes = kPageBytes, .members = {}};
  std::array<std::unique_ptr<SimRegister>, 2> registers_;
  std::set<std::tuple<size_t, size_t, size_t>> parted_;  // tenant, host, node
  std::vector<std::shared_ptr<SimConnection>> connections_;
  // Ended objects that callbacks may wait for.
  std::vector<std::unique_ptr<sim::SimFabric>> ended_;
  std::vector<std::unique_ptr<Reach>> ended_reaches_;
  std::array<Process, kNodes> processes_;
  std::array<std::unique_ptr<sim::SimFabric>, 2> client_fabrics_;
  std::array<Reach, 2> client_reaches_;
  std::array<std::unique_ptr<Client>, 2> clients_;
  std::array<std::optional<Engine>, 2> engines_;
};

TEST_P(TenantFleets, EachPageIsOnTwoNodesAndIsAnotherForEachTenant) {
  for (uint64_t number = 0; number < 30; ++number) {
    ASSERT_EQ(put(kA, number, 100 + number).code, Code::kOk) << number;
    if (number % 3 == 0) continue;
    ASSERT_EQ(put(kB, number, 200 + number).code, Code::kOk) << number;
  }
  EXPECT_EQ(held(kA), 2 * 30u);
  EXPECT_EQ(held(kB), 2 * 20u);
  for (uint64_t number = 0; number < 30; ++number) {
    EXPECT_EQ(fetch(kA, number), 100 + number);
    EXPECT_EQ(fetch(kB, number),
              number % 3 == 0 ? std::nullopt : std::optional<uint64_t>(200 + number));
  }
}

TEST_P(TenantFleets, AllPagesOfBothAreServedWithoutOneNodeAndItIsFilledAgain) {
  for (uint64_t number = 0; number < 30; ++number) {
    for (const size_t tenant : kTenants) {
      ASSERT_EQ(put(tenant, number, 100 * tenant + number).code, Code::kOk);
    }
  }
  end(1);
  for (uint64_t number = 0; number < 30; ++number) {
    for (const size_t tenant : kTenants) {
      EXPECT_EQ(fetch(tenant, number), 100 * tenant + number);
    }
  }
  start(1, {kA, kB});
  for (const size_t tenant : kTenants) {
    EXPECT_TRUE(wait_for([&] { return held(tenant) == 2 * 30; })) << held(tenant);
    EXPECT_GT(status(1, tenant).fleet.filled, 0u);
    put_patiently(tenant, number_at(1), 500 + tenant);
    EXPECT_EQ(fetch(tenant, number_at(1)), 500 + tenant);
  }
}

TEST_P(TenantFleets, PressureOfOneEvictsItsOwnPagesAlone) {
  for (uint64_t number = 0; number < 30; ++number) {
    ASSERT_EQ(put(kA, number, number).code, Code::kOk);
  }
  for (uint64_t number = 0; number < 2'000; ++number) {
    ASSERT_EQ(put(kB, number, number).code, Code::kOk);
  }
  for (uint64_t number = 0; number < 30; ++number) EXPECT_EQ(fetch(kA, number), number);
  for (size_t node = 0; node < kNodes; ++node) {
    EXPECT_EQ(status(node, kA).evictions, 0u);
    EXPECT_GT(status(node, kB).evictions, 300u);
    EXPECT_LE(status(node, kB).slots_live, 512u);
  }
}

// Others hold its pages under versions that its former run gave out.
TEST_P(TenantFleets, TenantThatWasAwayForARunIsTakenUpAgain) {
  const uint64_t number = number_at(0);
  const PutResult first = put(kA, number, 1);
  ASSERT_EQ(first.code, Code::kOk);
  end(0);
  start(0, {kB});
  run_for(kSettleNs);
  EXPECT_EQ(fetch(kA, number), 1);
  end(0);
  start(0, {kA, kB});
  EXPECT_GT(put_patiently(kA, number, 2).version, first.version);
  EXPECT_EQ(fetch(kA, number), 2);
}

// A report of a key that is another's gets the answer that one of no key gets, and does nothing.
TEST_P(TenantFleets, ReportTellsNothingOfAnothersKey) {
  const uint64_t number = number_at(0);
  const PageKey key = test_key(number);
  ASSERT_EQ(put(kA, number, 1).code, Code::kOk);
  damage(0, kA, key);
  const ReportReply of_anothers = report(0, kB, key);
  const ReportReply of_nobodys = report(0, kB, test_key(number + 1'000'000));
  EXPECT_EQ(of_anothers.dropped, of_nobodys.dropped);
  EXPECT_EQ(of_anothers.newest_epoch, of_nobodys.newest_epoch);
  EXPECT_EQ(status(0, kA).fleet.dropped, 0u);
  EXPECT_EQ(report(0, kA, key).dropped, 1u) << "its owner's does";
  EXPECT_TRUE(wait_for([&] { return status(0, kA).fleet.repaired == 1; }));
  EXPECT_EQ(fetch(kA, number), 1);
}

TEST_P(TenantFleets, StatusOfTheProcessSaysWhatIsTrueForEveryTenant) {
  ASSERT_EQ(put(kA, 1, 1).code, Code::kOk);
  const auto whole = [&] { return processes_[0].nodes->status(); };
  EXPECT_EQ(whole().fleet.node, id_of(0));
  EXPECT_EQ(whole().fleet.replicas, 2u);
  EXPECT_EQ(whole().tenants.size(), 2u);
  ASSERT_EQ(whole().fleet.others.size(), kNodes - 1);
  EXPECT_TRUE(std::ranges::all_of(whole().fleet.others, &MemberStatus::reached));
  parted_.insert({kB, 0, 1});
  for (auto& connection : connections_) {
    if (connection->joins(0, 1)) connection->lose_caller_end(wire_.delay());
    if (connection->joins(0, 1)) connection->lose_node_end();
  }
  EXPECT_TRUE(wait_for([&] { return !all_reached(0, kB) && all_reached(0, kA); }));
  const auto others = whole().fleet.others;
  ASSERT_EQ(others.size(), kNodes - 1);
  for (const MemberStatus& other : others) EXPECT_EQ(other.reached, other.node != id_of(1));
}

INSTANTIATE_TEST_SUITE_P(Memberships, TenantFleets,
                         testing::Values(Membership::kList, Membership::kRegister),
                         [](const auto& membership) {
                           return membership.param == Membership::kList ? "list" : "register";
                         });

class RegisteredTenants : public TenantFleets {
 protected:
  // As the register of one tenant alone says it.
  void leave_out(size_t tenant, size_t node) {
    Epoch next = registers_[tenant]->current().epoch;
    const uint64_t number = next.number++;
    std::erase_if(next.members, [&](const Member& member) { return member.node == id_of(node); });
    client_reaches_[tenant].epochs->replace(number, std::move(next), [](const Result<void>&) {});
  }
};

TEST_P(RegisteredTenants, OneThatIsLeftOutComesBackAndTheOtherTenantHasNotNoticed) {
  for (uint64_t number = 0; number < 30; ++number) {
    for (const size_t tenant : kTenants) ASSERT_EQ(put(tenant, number, 7).code, Code::kOk);
  }
  const std::array<uint64_t, 2> before = {status(1, kA).incarnation, status(1, kB).incarnation};
  leave_out(kA, 1);
  ASSERT_TRUE(wait_for(
      [&] { return status(1, kA).incarnation != 0 && status(1, kA).incarnation != before[kA]; }));
  EXPECT_TRUE(wait_for([&] { return held(kA) == 2 * 30; }));
  EXPECT_EQ(status(1, kB).incarnation, before[kB]);
  EXPECT_EQ(status(1, kB).fleet.filled, 0u);
  EXPECT_GT(registers_[kA]->current().epoch.number, registers_[kB]->current().epoch.number);
  for (const size_t tenant : kTenants) {
    for (uint64_t number = 0; number < 30; ++number) EXPECT_EQ(fetch(tenant, number), 7);
  }
}

TEST_P(RegisteredTenants, OneThatIsHeldHasItsPagesAgainAsFarAsOthersConfirmThem) {
  for (uint64_t number = 0; number < 30; ++number) {
    for (const size_t tenant : kTenants) ASSERT_EQ(put(tenant, number, 7).code, Code::kOk);
  }
  const auto restart = [&] {
    end(1);
    start(1, {kA, kB});
    for (const size_t tenant : kTenants) {
      EXPECT_TRUE(wait_for([&] { return held(tenant) == 2 * 30; })) << held(tenant);
    }
  };
  is_held_ = true;
  restart();
  for (const size_t tenant : kTenants) EXPECT_GT(status(1, tenant).fleet.filled, 0u);
  restart();
  for (const size_t tenant : kTenants) EXPECT_EQ(status(1, tenant).fleet.filled, 0u);
  keepers_[{1, kB}].lose();
  restart();
  EXPECT_EQ(status(1, kA).fleet.filled, 0u);
  EXPECT_GT(status(1, kB).fleet.filled, 0u);
  for (const size_t tenant : kTenants) {
    for (uint64_t number = 0; number < 30; ++number) EXPECT_EQ(fetch(tenant, number), 7);
  }
}

INSTANTIATE_TEST_SUITE_P(Memberships, RegisteredTenants, testing::Values(Membership::kRegister));

TEST(TenantFleetOptions, NodeThatIsNotOfTheListIsRefusedBeforeItBegins) {
  const TempDir dir;
  sim::World world(1);
  sim::SimFabric fabric(world, {});
  NodeOptions options;
  options.page_bytes = kPageBytes;
  options.state = dir / "node.state";
  Fleet fleet;
  fleet.list = {.number = 1, .replicas = 1, .seed = 1, .page_bytes = kPageBytes, .members = {}};
  fleet.list.members.push_back({id_of(0), 0});
  fleet.list.give_slots();
  const std::array<Fabric*, 1> fabrics = {&fabric};
  const std::vector<TenantOptions> tenants = {{"a", "token", kMiB}};
  const std::array<PoolHandoff*, 1> keepers = {};
  const auto nodes = TenantNodes::create(options, tenants, fabric.runtime(), fabrics, keepers,
                                         std::span(&fleet, 1), id_of(1));
  ASSERT_FALSE(nodes.has_value());
  EXPECT_EQ(nodes.error().code, Code::kInvalid);
  EXPECT_FALSE(std::filesystem::exists(options.state));
}

}  // namespace
}  // namespace farpage
