#include "lab/scale/lone_node.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/memory/mapping.h"
#include "base/random.h"
#include "lab/scale/cpu_time.h"
#include "lab/scale/heap.h"
#include "lab/scale/placement_sample.h"
#include "pagetable/placement.h"
#include "sim/sim_cluster.h"

namespace farpage {
namespace {

enum HostNumber : size_t { kNode, kClient, kOther, kRegister };

constexpr uint64_t kPageBytes = 512;
constexpr uint64_t kViewNs = 2 * kSecond;
constexpr uint64_t kLooksPerView = 4;
constexpr size_t kPagesAtOnce = 64;

NodeOptions node_options(uint64_t slots, std::string state) {
  NodeOptions options = small_sim_node();
  options.listen = "simulated";
  options.state = std::move(state);
  options.page_bytes = kPageBytes;
  options.pool_bytes = slots * (kPageBytes + sizeof(PageHeader));
  options.lease_ms = kViewNs / kMillisecond;
  return options;
}

}  // namespace

LoneNode::LoneNode(uint64_t nodes, uint64_t slots, uint64_t seed)
    : world_(seed),
      wire_{world_, 10 * kMicrosecond, 200 * kMicrosecond},
      first_(scale_epoch(nodes, 1, kPageBytes, seed)),
      register_(wire_, kRegister, first_, {.detect_ns = 0}),
      node_host_{sim::SimFabric(world_, {})},
      client_host_{sim::SimFabric(world_, {})},
      other_host_{sim::SimFabric(world_, {})} {
  for (Host* host : {&node_host_, &client_host_, &other_host_}) {
    const size_t number = host == &node_host_ ? kNode : host == &client_host_ ? kClient : kOther;
    Runtime& runtime = host->fabric.runtime();
    host->epochs = register_.access(number, runtime);
    host->to_node = std::make_unique<SimDialer>(wire_, runtime, [this, number, &runtime] {
      return connections_.emplace_back(std::make_shared<SimConnection>(
          wire_, SimEnd{number, runtime}, SimEnd{kNode, node_host_.fabric.runtime()}, *node_));
    });
  }
  node_ = make_memory_node(node_options(slots, states_ / "node.state"), node_host_.fabric.runtime(),
                           node_host_.fabric, fleet_of(node_host_), first_.members[0].node)
              .value();
  const auto has_joined = [this] { return register_.current().epoch.number > first_.number; };
  FARPAGE_CHECK(world_.wait_until(world_.now_ns() + kSecond, has_joined));
  confirm_others();
  world_.run_until(world_.now_ns() + 2 * kViewNs);
  const uint64_t before = heap_bytes();
  client_ =
      Client::connect({.staging_bytes = 64 * kKiB, .location_pages = 1},
                      client_host_.fabric.runtime(), client_host_.fabric, fleet_of(client_host_))
          .value();
  const uint64_t after = heap_bytes();
  client_heap_bytes_ = after > before ? after - before : 0;
}

LoneNode::~LoneNode() {
  client_.reset();
  for (const auto& connection : connections_) connection->node_gone();
  node_.reset();
}

Fleet LoneNode::fleet_of(Host& host) {
  Fleet fleet;
  fleet.list = first_;
  fleet.epochs = host.epochs.get();
  fleet.view_ns = kViewNs;
  fleet.dialer = [this, &host](NodeId node) -> ControlDialer& {
    if (node == first_.members[0].node) return *host.to_node;
    return host.to_others.try_emplace(node, host.fabric.runtime()).first->second;
  };
  return fleet;
}

void LoneNode::confirm_others() {
  const Epoch& epoch = register_.current().epoch;
  for (const Member& member : epoch.members) {
    if (member.node == first_.members[0].node) continue;
    other_host_.epochs->confirm(member.node, epoch.number, [](const Result<void>&) {});
  }
}

void LoneNode::put(uint64_t pages) {
  const Placement placement(epoch());
  const NodeId self = first_.members[0].node;
  Mapping memory = Mapping::anonymous(kPageBytes).value();
  const Region region = client_->register_memory({memory.data(), memory.bytes()}).value();
  Random random(world_.random());
  std::vector<PutRequest> requests;
  for (uint64_t left = pages; left > 0;) {
    const uint64_t low = random.next();
    const PageKey key = {low, random.next()};
    if (epoch().members[placement.replicas(key).primary()].node != self) continue;
    requests.push_back({key, region.slice(0, kPageBytes)});
    --left;
    if (requests.size() < kPagesAtOnce && left > 0) continue;
    Put put = client_->put(requests, world_.now_ns() + 10 * kSecond);
    for (const PutResult& result : put.wait()) FARPAGE_CHECK(result.code == Code::kOk);
    requests.clear();
  }
}

// It reads the register four times in a view's time, and confirms what it has entered.
uint64_t LoneNode::enter_next_epoch_ns() {
  Epoch next = epoch();
  const uint64_t current = next.number++;
  next.members.push_back({node_id("joined " + std::to_string(++joined_)), 1});
  next.give_slots();
  other_host_.epochs->replace(current, next,
                              [](const Result<void>& replaced) { FARPAGE_CHECK(replaced); });
  const auto confirmed = [this, current] {
    return epoch().number > current && !register_.current().confirmed.empty();
  };
  const uint64_t from_ns = thread_cpu_ns();
  FARPAGE_CHECK(world_.wait_until(world_.now_ns() + kViewNs / kLooksPerView + kSecond, confirmed));
  const uint64_t took_ns = thread_cpu_ns() - from_ns;
  confirm_others();
  world_.run_until(world_.now_ns() + 2 * kViewNs);
  return took_ns;
}

}  // namespace farpage
