#include "sim/sim_cluster.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/check.h"
#include "pagetable/epoch.h"
#include "sim/quiet_dialer.h"

namespace farpage {
namespace {

Epoch membership(const SimClusterOptions& options) {
  Epoch epoch;
  epoch.number = 1;
  epoch.replicas = options.replicas;
  epoch.seed = 1;
  epoch.page_bytes = options.node.page_bytes;
  for (uint64_t node = 0; node < options.nodes; ++node) {
    epoch.members.push_back({node_id("n" + std::to_string(node)), 0});
  }
  epoch.give_slots();
  return epoch;
}

// Of a register that knows all nodes, and leaves out none for what others tell.
class SimMembership final : public Membership {
 public:
  SimMembership(const SimClusterOptions& options, size_t node) : options_(options), node_(node) {}

  bool has_address(NodeId) const override { return true; }
  uint64_t meet_ns() const override { return options_.meet_ns; }
  void cannot_join(const std::string& why) override {
    if (options_.cannot_join) options_.cannot_join(node_, why);
  }
  void tell_away(uint64_t, const std::vector<NodeId>&) override {}

 private:
  const SimClusterOptions& options_;
  const size_t node_;
};

}  // namespace

NodeOptions small_sim_node() {
  NodeOptions options;
  options.page_bytes = 512;
  options.pool_bytes = 16 * (512 + sizeof(PageHeader));
  options.reuse_ms = 2;
  options.lease_ms = 20;
  options.scrub_bytes_per_s = 0;
  return options;
}

SimCluster::SimCluster(uint64_t seed, const SimClusterOptions& options)
    : options_(options),
      world_(seed),
      wire_{world_, options.control_min_ns, options.control_max_ns},
      list_(membership(options)),
      nodes_(options.nodes) {
  FARPAGE_CHECK(validate(list_));
  options_.node.listen = "simulated";
  for (uint64_t client = 0; client < options_.clients; ++client) {
    auto host = std::make_unique<ClientHost>();
    host->fabric = std::make_unique<sim::SimFabric>(world_, options_.network);
    host->refused_dial_ns.resize(nodes_.size());
    clients_.push_back(std::move(host));
  }
  if (options_.uses_register) {
    register_ = std::make_unique<SimRegister>(wire_, register_host(), list_, options_.epochs);
  }
  for (uint64_t client = 0; client < options_.clients; ++client) {
    ClientHost& host = *clients_[client];
    host.dialers = make_dialers(client_host(client), host.fabric->runtime());
    if (register_) host.epochs = register_->access(client_host(client), host.fabric->runtime());
  }
  for (uint64_t node = 0; node < options_.nodes; ++node) {
    if (register_ != nullptr && options_.meet_ns > 0) {
      nodes_[node].membership = std::make_unique<SimMembership>(options_, node);
    }
    start_node(node);
  }
}

// A node that ends speaks to the others once more: their hosts are still there.
SimCluster::~SimCluster() {
  for (auto& connection : connections_) connection->node_gone();
  for (Node& node : nodes_) {
    if (node.run != nullptr) node.run->service.reset();
  }
  for (auto& run : former_runs_) run->service.reset();
}

SimCluster::Dialers SimCluster::make_dialers(size_t host, Runtime& runtime) {
  Dialers dialers;
  for (size_t node = 0; node < nodes_.size(); ++node) {
    if (!options_.nodes_call && host < nodes_.size()) {
      dialers.push_back(std::make_unique<QuietDialer>(runtime));
      continue;
    }
    dialers.push_back(std::make_unique<SimDialer>(wire_, runtime, [this, host, &runtime, node] {
      return open({host, runtime}, node);
    }));
  }
  return dialers;
}

std::shared_ptr<SimConnection> SimCluster::open(SimEnd caller, size_t node) {
  if (!node_runs(node) || !wire_.passes(caller.host, node_host(node))) return nullptr;
  if (caller.host >= nodes_.size()) {
    ClientHost& client = *clients_[caller.host - nodes_.size()];
    if (!client.may_dial) {
      client.refused_dial_ns[node] = now_ns();
      return nullptr;
    }
  }
  NodeRun& run = *nodes_[node].run;
  connections_.push_back(std::make_shared<SimConnection>(
      wire_, caller, SimEnd{node_host(node), run.own->runtime()}, *run.service));
  return connections_.back();
}

Result<std::unique_ptr<Client>> SimCluster::connect(size_t client, ClientOptions options,
                                                    Fabric* fabric) {
  options.staging_bytes = std::min<uint64_t>(options.staging_bytes, 64 * kKiB);
  ClientHost& host = *clients_[client];
  Fabric& used = fabric == nullptr ? *host.fabric : *fabric;
  if (nodes_.size() > 1 || register_ != nullptr) {
    return Client::connect(options, host.fabric->runtime(), used, fleet_for_client(client));
  }
  return Client::connect(options, host.fabric->runtime(), used, *host.dialers[0]);
}

void SimCluster::let_dial(size_t client, bool allowed) {
  clients_[client]->may_dial = allowed;
}

void SimCluster::set_network(const sim::SimOptions& options) {
  options_.network = options;
  for (auto& client : clients_) client->fabric->set_options(options);
  for (Node& node : nodes_) {
    if (node.run != nullptr) node.run->own->set_options(options);
  }
}

void SimCluster::set_control_delay(uint64_t min_ns, uint64_t max_ns) {
  wire_.min_ns = min_ns;
  wire_.max_ns = max_ns;
}

Fleet SimCluster::fleet(Dialers& dialers, EpochRegister* epochs) {
  Fleet fleet;
  fleet.list = list_;
  fleet.epochs = epochs;
  fleet.view_ns = options_.node.lease_ms * kMillisecond;
  fleet.dialer = [this, &dialers](NodeId id) -> ControlDialer& {
    const auto member = std::ranges::find(list_.members, id, &Member::node);
    FARPAGE_CHECK(member != list_.members.end());
    return *dialers[static_cast<size_t>(member - list_.members.begin())];
  };
  return fleet;
}

Fleet SimCluster::fleet_for_client(size_t client) {
  return fleet(clients_[client]->dialers, clients_[client]->epochs.get());
}

Fleet SimCluster::fleet_for_node(size_t node) {
  Fleet made = fleet(nodes_[node].run->dialers, nodes_[node].run->epochs.get());
  made.membership = nodes_[node].membership.get();
  return made;
}

void SimCluster::start_node(size_t node) {
  FARPAGE_CHECK(!node_runs(node));
  NodeOptions options = options_.node;
  if (node < options_.nodes_apart) options.slot_layout = SlotLayout::kApart;
  options.state = states_ / ("node.state." + std::to_string(++runs_));
  if (!nodes_[node].state.empty()) {
    std::filesystem::copy_file(nodes_[node].state, options.state);
  }
  nodes_[node].state = options.state;
  auto run = std::make_unique<NodeRun>();
  run->own = std::make_unique<sim::SimFabric>(world_, options_.network);
  if (options_.wrap_node) run->wrapped = options_.wrap_node(node, *run->own);
  run->dialers = make_dialers(node_host(node), run->own->runtime());
  if (register_) {
    run->epochs = register_->access(node_host(node), run->own->runtime());
    register_->hear_from(list_.members[node].node, node_host(node), run->own->runtime(),
                         std::weak_ptr(run->lives));
  }
  NodeRun& started = *run;
  nodes_[node].run = std::move(run);
  for (size_t other = 0; other <= register_host(); ++other) {
    if (!wire_.passes(node_host(node), other) && fabric_of(other) != nullptr) {
      started.own->part_from(*fabric_of(other));
    }
  }
  Runtime& runtime = started.own->runtime();
  const bool is_alone = nodes_.size() == 1 && register_ == nullptr;
  PoolHandoff* keeper = options_.keep_pools ? &nodes_[node].pool : nullptr;
  started.service =
      (is_alone ? make_memory_node(options, runtime, started.fabric(), keeper)
                : make_memory_node(options, runtime, started.fabric(), fleet_for_node(node),
                                   list_.members[node].node, keeper))
          .value();
}

void SimCluster::end_node(NodeEnd end, size_t node) {
  FARPAGE_CHECK(node_runs(node));
  for (auto& connection : connections_) {
    if (connection->node() == node_host(node)) {
      connection->node_gone();
      connection->lose_caller_end(wire_.delay());
    } else if (connection->caller() == node_host(node)) {
      connection->lose_node_end();
    }
  }
  // Those that it made itself stay known, as a node that is to hear of their end may end first.
  std::erase_if(connections_, [host = node_host(node)](const auto& connection) {
    return connection->node() == host;
  });
  std::unique_ptr<NodeRun> run = std::move(nodes_[node].run);
  run->lives.reset();
  if (end == NodeEnd::kStopped) {
    run->service.reset();
  } else if (end == NodeEnd::kKilled) {
    run->own->pause();
  } else {
    run->own->die();
    nodes_[node].pool.lose();
  }
  former_runs_.push_back(std::move(run));
}

sim::SimFabric* SimCluster::fabric_of(size_t host) {
  if (host < nodes_.size()) return node_runs(host) ? nodes_[host].run->own.get() : nullptr;
  const size_t client = host - nodes_.size();
  return client < clients_.size() ? clients_[client]->fabric.get() : nullptr;
}

// Those that are cut stay known until their node ends, which may be before it hears of it.
void SimCluster::cut_links() {
  for (auto& connection : connections_) {
    connection->lose_caller_end(wire_.delay());
    connection->lose_node_end();
  }
}

void SimCluster::cut_links(size_t host, size_t other) {
  for (auto& connection : connections_) {
    if (!connection->joins(host, other)) continue;
    connection->lose_caller_end(wire_.delay());
    connection->lose_node_end();
  }
}

void SimCluster::silence_links() {
  for (auto& connection : connections_) connection->silence();
}

void SimCluster::silence_links(size_t host, size_t other) {
  for (auto& connection : connections_) {
    if (connection->joins(host, other)) connection->silence();
  }
}

void SimCluster::part(size_t host, size_t other) {
  wire_.parted.insert(SimWire::pair(host, other));
  if (fabric_of(host) != nullptr && fabric_of(other) != nullptr) {
    fabric_of(host)->part_from(*fabric_of(other));
  }
}

void SimCluster::heal(size_t host, size_t other) {
  wire_.parted.erase(SimWire::pair(host, other));
  if (fabric_of(host) != nullptr && fabric_of(other) != nullptr) {
    fabric_of(host)->heal_to(*fabric_of(other));
  }
  for (auto& connection : connections_) {
    if (connection->joins(host, other)) connection->healed();
  }
}

void SimCluster::heal_all() {
  for (const auto& [host, other] : std::set(wire_.parted)) heal(host, other);
}

}  // namespace farpage
