#include "lab/scale/epoch_news.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "base/check.h"
#include "lab/scale/use_nodes.h"
#include "sim/sim_cluster.h"

namespace farpage {
namespace {

constexpr uint64_t kLookNs = kMillisecond;
constexpr uint64_t kLooksPerView = 50;  // whether the views are valid
constexpr uint64_t kViewsToSettle = 2;
constexpr uint64_t kViewsBefore = 10;

SimClusterOptions cluster_options(const EpochNewsOptions& options) {
  const NodeOptions defaults;
  SimClusterOptions cluster;
  cluster.node.lease_ms = defaults.lease_ms;
  cluster.node.reuse_ms = defaults.reuse_ms;
  cluster.node.max_clients = options.clients + options.nodes;
  cluster.nodes = options.nodes;
  cluster.replicas = std::min<uint64_t>(options.nodes, 2);
  cluster.clients = options.clients;
  cluster.uses_register = true;
  return cluster;
}

class Crowd {
 public:
  explicit Crowd(const EpochNewsOptions& options)
      : options_(options), cluster_(options.seed, cluster_options(options)) {
    run_for(kViewsToSettle * view_ns_);  // until the nodes have each other
    for (uint64_t client = 0; client < options.clients; ++client) {
      auto connected = cluster_.connect(client, {.staging_bytes = 0, .location_pages = 1});
      FARPAGE_CHECK(connected.has_value());
      clients_.push_back(std::move(*connected));
      use_nodes(*clients_.back(), options.nodes, options.seed);
    }
    run_for(kViewsToSettle * view_ns_);
  }

  EpochNews lose_a_node() {
    EpochNews news = {.clients = clients_.size()};
    std::vector<bool> served(clients_.size(), true);
    const uint64_t client_reads = reads_of_clients();
    const uint64_t node_reads = reads_of_nodes();
    for (uint64_t look = 0; look < kViewsBefore * kLooksPerView; ++look) {
      run_for(view_ns_ / kLooksPerView);
      look_at_views(served);
    }
    news.reads_before = reads_of_clients() - client_reads;
    news.node_reads_before = reads_of_nodes() - node_reads;

    const SimRegister& epochs = *cluster_.epochs();
    const uint64_t before = epochs.current().epoch.number;
    cluster_.end_node(NodeEnd::kPowerLost, options_.nodes - 1);
    while (epochs.current().epoch.number == before) run_for(kLookNs);
    const uint64_t begun_ns = epochs.begun_ns(epochs.history().size() - 1);
    const uint64_t reads_then = reads_of_clients();
    std::vector<uint64_t> took;
    std::vector<bool> knows(clients_.size(), false);
    while (cluster_.now_ns() < begun_ns + view_ns_) {
      run_for(kLookNs);
      look_at_views(served);
      for (size_t client = 0; client < clients_.size(); ++client) {
        if (knows[client] || clients_[client]->epoch() == before) continue;
        knows[client] = true;
        took.push_back(cluster_.now_ns() - begun_ns);
      }
    }
    news.reads = reads_of_clients() - reads_then;
    news.last_ns = took.size() < clients_.size() ? kNever : took.back();
    news.median_ns = took.size() <= clients_.size() / 2 ? kNever : took[clients_.size() / 2];
    news.served =
        static_cast<double>(std::ranges::count(served, true)) / static_cast<double>(served.size());
    return news;
  }

 private:
  void run_for(uint64_t ns) { cluster_.world().run_until(cluster_.now_ns() + ns); }
  void look_at_views(std::vector<bool>& served) const {
    for (size_t client = 0; client < clients_.size(); ++client) {
      if (!clients_[client]->reachable()) served[client] = false;
    }
  }
  uint64_t reads_of_clients() {
    uint64_t reads = 0;
    for (uint64_t client = 0; client < options_.clients; ++client) {
      reads += cluster_.epochs()->reads(cluster_.client_host(client));
    }
    return reads;
  }
  uint64_t reads_of_nodes() {
    uint64_t reads = 0;
    for (uint64_t node = 0; node < options_.nodes; ++node) {
      reads += cluster_.epochs()->reads(cluster_.node_host(node));
    }
    return reads;
  }

  const EpochNewsOptions options_;
  const uint64_t view_ns_ = NodeOptions().lease_ms * kMillisecond;
  SimCluster cluster_;
  std::vector<std::unique_ptr<Client>> clients_;
};

}  // namespace

EpochNews measure_epoch_news(const EpochNewsOptions& options) {
  return Crowd(options).lose_a_node();
}

}  // namespace farpage
