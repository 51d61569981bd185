#include "lab/scale/every_node.h"

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/memory/mapping.h"
#include "base/random.h"
#include "lab/scale/cpu_time.h"
#include "lab/scale/heap.h"
#include "lab/scale/use_nodes.h"
#include "pagetable/placement.h"
#include "sim/sim_cluster.h"

namespace farpage {
namespace {

enum ClientNumber : size_t { kPutter, kReader, kClients };

constexpr uint64_t kPageBytes = 512;
constexpr uint64_t kPutNs = 10 * kSecond;

SimClusterOptions cluster_options(const EveryNodeOptions& options) {
  const NodeOptions defaults;
  SimClusterOptions cluster;
  cluster.node.lease_ms = defaults.lease_ms;
  cluster.node.reuse_ms = defaults.reuse_ms;
  cluster.node.page_bytes = kPageBytes;
  // Chance gives some node more keys than the others.
  const uint64_t slots = 4 * options.pages_each + 16;
  cluster.node.pool_bytes = slots * (kPageBytes + sizeof(PageHeader));
  cluster.nodes = options.nodes;
  cluster.nodes_call = false;
  cluster.clients = kClients;
  return cluster;
}

// A page's bytes follow from its key.
void fill(std::span<std::byte> page, const PageKey& key) {
  Random random(key.low ^ key.high);
  std::ranges::generate(page, [&random] { return static_cast<std::byte>(random.next()); });
}

bool holds(std::span<const std::byte> page, const PageKey& key) {
  Random random(key.low ^ key.high);
  return std::ranges::all_of(
      page, [&random](std::byte each) { return each == static_cast<std::byte>(random.next()); });
}

// A client, and memory for as many pages as there are.
class Reader {
 public:
  Reader(SimCluster& cluster, uint64_t pages)
      : cluster_(cluster),
        memory_(Mapping::anonymous(pages * kPageBytes).value()),
        client_(cluster.connect(kReader, {.staging_bytes = 0}).value()),
        region_(client_->register_memory({memory_.data(), memory_.bytes()}).value()),
        lane_(client_->open_lane().value()) {}

  EveryNode::Fetch fetch(std::span<const PageKey> keys, uint64_t in_ns) {
    std::vector<PageRequest> requests;
    for (size_t i = 0; i < keys.size(); ++i) {
      requests.push_back({keys[i], 0, region_.slice(i * kPageBytes, kPageBytes)});
    }
    std::vector<PageVerdict> verdicts(keys.size());
    const uint64_t cpu_ns = thread_cpu_ns();
    const uint64_t deadline_ns = cluster_.now_ns() + in_ns;
    Fetch fetch = lane_.fetch(requests, verdicts, deadline_ns);
    fetch.wait();
    EveryNode::Fetch result = {.cpu_ns = thread_cpu_ns() - cpu_ns};
    result.late_ns = std::max(cluster_.now_ns(), deadline_ns) - deadline_ns;
    for (size_t i = 0; i < keys.size(); ++i) {
      const PageVerdict& verdict = verdicts[i];
      result.last_ns = std::max(result.last_ns, verdict.took_ns);
      if (verdict.verdict != Verdict::kReady) continue;
      ++result.ready;
      if (!holds({verdict.landed, kPageBytes}, keys[i])) ++result.wrong;
    }
    return result;
  }

 private:
  SimCluster& cluster_;
  Mapping memory_;
  std::unique_ptr<Client> client_;
  Region region_;
  Lane lane_;
};

class Asker {
 public:
  explicit Asker(const EveryNodeOptions& options)
      : options_(options),
        in_ns_(options.deadline_ms * kMillisecond),
        cluster_(options.seed, cluster_options(options)),
        placement_(cluster_.fleet_for_client(kReader).list),
        keys_(random_keys(options.nodes * options.pages_each, options.seed)) {
    const uint64_t settle_ns = 2 * cluster_.fleet_for_client(kReader).view_ns;
    cluster_.world().run_until(settle_ns);
    put_all();
    cluster_.world().run_until(cluster_.now_ns() + settle_ns);  // until the nodes forget the putter
  }

  EveryNode ask() {
    EveryNode result = {.nodes = options_.nodes, .pages = keys_.size()};
    {
      const uint64_t before = heap_bytes();
      Reader reader(cluster_, keys_.size());
      result.few = reader.fetch(keys_of_first(options_.few), in_ns_);
      result.few_heap_bytes = grown_since(before);
    }
    const uint64_t before = heap_bytes();
    Reader reader(cluster_, keys_.size());
    result.cold = reader.fetch(keys_, in_ns_);
    result.every_heap_bytes = grown_since(before);
    result.warm = reader.fetch(keys_, in_ns_);
    result.of_silent = keys_of_first(options_.silent).size();
    for (size_t node = 0; node < options_.silent; ++node) {
      cluster_.end_node(NodeEnd::kPowerLost, node);
    }
    result.silent = reader.fetch(keys_, in_ns_);
    return result;
  }

 private:
  std::vector<PageKey> keys_of_first(uint64_t nodes) const {
    std::vector<PageKey> keys;
    std::ranges::copy_if(keys_, std::back_inserter(keys), [this, nodes](const PageKey& key) {
      return placement_.replicas(key).primary() < nodes;
    });
    return keys;
  }

  static uint64_t grown_since(uint64_t before) {
    const uint64_t now = heap_bytes();
    return now > before ? now - before : 0;
  }

  void put_all() {
    const auto client = cluster_.connect(kPutter).value();
    const Mapping memory = Mapping::anonymous(keys_.size() * kPageBytes).value();
    const Region region = client->register_memory({memory.data(), memory.bytes()}).value();
    std::vector<PutRequest> requests;
    for (size_t i = 0; i < keys_.size(); ++i) {
      fill({memory.data() + i * kPageBytes, kPageBytes}, keys_[i]);
      requests.push_back({keys_[i], region.slice(i * kPageBytes, kPageBytes)});
    }
    Put put = client->put(requests, cluster_.now_ns() + kPutNs);
    for (const PutResult& result : put.wait()) FARPAGE_CHECK(result.code == Code::kOk);
  }

  const EveryNodeOptions options_;
  const uint64_t in_ns_;
  SimCluster cluster_;
  const Placement placement_;
  const std::vector<PageKey> keys_;
};

}  // namespace

EveryNode ask_every_node(const EveryNodeOptions& options) {
  return Asker(options).ask();
}

}  // namespace farpage
