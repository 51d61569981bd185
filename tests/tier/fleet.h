#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "pagetable/placement.h"
#include "sim/fault/fault_fabric.h"
#include "sim/sim_cluster.h"
#include "tests/support/engine.h"
#include "tests/support/recorded_metrics.h"

namespace farpage {

inline constexpr uint64_t kPageBytes = 512;
inline constexpr uint64_t kView = 20 * kMillisecond;  // small_sim_node()

inline SimClusterOptions three_nodes() {
  SimClusterOptions options;
  options.nodes = 3;
  options.replicas = 2;
  options.clients = 1;
  options.node.pool_bytes = 256 * (kPageBytes + sizeof(PageHeader));
  return options;
}
inline SimClusterOptions registered_nodes() {
  SimClusterOptions options = three_nodes();
  options.uses_register = true;
  return options;
}

// Its client dials every member: each is the primary of some key.
inline void use_all(Engine& engine) {
  std::vector<PageKey> keys;
  for (uint64_t number = 0; number < 64; ++number) keys.push_back(test_key(number));
  std::vector<KeyAnswer> answers(keys.size());
  engine.lane().ask(keys, answers, engine.deadline()).wait();
}

// A client of several nodes, in virtual time, which has used each of them.
class FleetTest : public testing::Test {
 protected:
  explicit FleetTest(const SimClusterOptions& options = three_nodes(), ClientOptions client = {})
      : cluster_(1, options), fleet_(cluster_.fleet_for_client(0)) {
    client.staging_bytes = 64 * kKiB;
    auto connected = connect(client, fleet_);
    EXPECT_TRUE(connected) << connected.error().message;
    client_ = std::move(*connected);
    run_for(10 * kView);  // until they take puts
    engine_.emplace(*client_, kPageBytes, 64);
    use_all(*engine_);
    run_for(kView);
  }

  Result<std::unique_ptr<Client>> connect(const ClientOptions& options, const Fleet& fleet) {
    return Client::connect(options, cluster_.client_fabric(0).runtime(), faulty_, fleet);
  }
  uint64_t now() const { return cluster_.now_ns(); }
  void run_for(uint64_t duration_ns) { cluster_.world().run_until(now() + duration_ns); }
  Epoch epoch() { return cluster_.epochs() ? cluster_.epochs()->current().epoch : fleet_.list; }
  // The nodes that hold a key, its primary first.
  std::vector<size_t> nodes_of(const PageKey& key) {
    const Epoch current = epoch();
    const ReplicaSet set = Placement(current).replicas(key);
    std::vector<size_t> nodes;
    for (size_t rank = 0; rank < set.size(); ++rank) {
      for (size_t node = 0; node < cluster_.nodes(); ++node) {
        if (current.members[set[rank]].node == node_id("n" + std::to_string(node))) {
          nodes.push_back(node);
        }
      }
    }
    return nodes;
  }
  PageKey key_with_primary(size_t node) {
    for (uint64_t number = 0;; ++number) {
      if (nodes_of(test_key(number))[0] == node) return test_key(number);
    }
  }
  void inject(fault::FaultKind kind, uint64_t count) {
    fault::FaultPlan plan;
    plan.of(kind) = 1;
    plan.most = count;
    faulty_.set_plan(plan);
  }
  double metric(const std::string& name) {
    RecordedMetrics metrics;
    client_->describe(metrics);
    double sum = 0;
    for (const auto& [series, value] : metrics.values) {
      if (series.starts_with(name)) sum += value;
    }
    return sum;
  }
  Engine& engine() { return *engine_; }

  SimCluster cluster_;
  Fleet fleet_;
  fault::FaultFabric faulty_{cluster_.client_fabric(0), cluster_.world().clock(), 1};
  std::unique_ptr<Client> client_;
  std::optional<Engine> engine_;
};

// A fleet under a register.
class RegisteredFleet : public FleetTest {
 protected:
  RegisteredFleet() : FleetTest(registered_nodes()) {}
};

inline uint64_t quantile(std::vector<uint64_t> values, double part) {
  std::ranges::sort(values);
  return values[static_cast<size_t>(part * static_cast<double>(values.size() - 1))];
}

}  // namespace farpage
