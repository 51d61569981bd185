#include "cli/node/node_fleets.h"

#include <fmt/format.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "client/fleet/etcd_fleet.h"

namespace farpage {
namespace {

// How long one try to reach another node of the cluster may take.
constexpr uint64_t kPeerConnectMs = 2'000;
// A fleet that cannot be joined says so several times in a view_lease.
constexpr uint64_t kToldLatelyNs = 60 * kSecond;

}  // namespace

NodeFleets::NodeFleets(const NodeSettings& settings)
    : settings_(settings),
      ending_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      drained_(settings.peers.size()),
      could_not_join_ns_(settings.peers.size()),
      warnings_(60 * kSecond) {
  FARPAGE_CHECK(ending_.valid());
}

Result<std::unique_ptr<NodeFleets>> NodeFleets::join(const NodeSettings& settings,
                                                     const std::string& address,
                                                     AsioRuntime& runtime) {
  auto made = std::unique_ptr<NodeFleets>(new NodeFleets(settings));
  if (!settings.is_member()) return made;
  for (size_t number = 0; number < settings.peers.size(); ++number) {
    auto joined = made->join_one(number, address, runtime);
    if (!joined) {
      made->leave();
      if (settings.tenants.empty()) return tl::unexpected(joined.error());
      return fail(joined.error().code,
                  fmt::format("the tenant '{}': {}", settings.tenants[number].name,
                              joined.error().message));
    }
    made->fleets_.push_back(std::move(*joined));
  }
  return made;
}

Result<std::unique_ptr<ReachableFleet>> NodeFleets::join_one(size_t number,
                                                             const std::string& address,
                                                             AsioRuntime& runtime) {
  const NodeCluster& cluster = settings_.cluster;
  const ClientCredentials& credentials = settings_.peers[number];
  if (!settings_.etcd.is_given()) {
    return ListedFleet::make(cluster, runtime, credentials, kPeerConnectMs);
  }
  NodeEtcd options = settings_.etcd;
  if (!settings_.tenants.empty()) {
    options.fleet = etcd::fleet_of_tenant(options.fleet, settings_.tenants[number].name);
  }
  const etcd::NodeRecord self = {cluster.name, cluster.address.empty() ? address : cluster.address,
                                 owner_of(settings_.node.state), 0};
  const etcd::Terms terms = {settings_.node.lease_ms, settings_.node.page_bytes, cluster.replicas,
                             cluster.seed};
  return EtcdFleet::join(
      options, self, terms,
      {.ends = [this](const std::string& why) { end(why); },
       .drained = [this, number](bool is_drained) { drained(number, is_drained); }},
      [this, number](const std::string& why) { cannot_join(number, why); }, runtime, credentials,
      kPeerConnectMs);
}

std::vector<Fleet> NodeFleets::fleets() const {
  std::vector<Fleet> fleets;
  for (const auto& fleet : fleets_) fleets.push_back(fleet->fleet());
  return fleets;
}

std::string NodeFleets::why_it_ends() const {
  const std::lock_guard lock(mutex_);
  return why_it_ends_;
}

bool NodeFleets::has_failed() const {
  const std::lock_guard lock(mutex_);
  return has_failed_;
}

// The first that was given.
void NodeFleets::end(const std::string& why, bool is_failure) {
  const std::lock_guard lock(mutex_);
  if (why_it_ends_.empty()) {
    why_it_ends_ = why;
    has_failed_ = is_failure;
  }
  (void)::eventfd_write(ending_.get(), 1);
}

// One tenant's fleet is no reason to lose another's pages: the process ends where none can be
// joined. It is told again and again for as long as that is so.
void NodeFleets::cannot_join(size_t number, const std::string& why) {
  const uint64_t now = boottime_clock().now_ns();
  bool none = false;
  {
    const std::lock_guard lock(mutex_);
    could_not_join_ns_[number] = now;
    none = std::ranges::all_of(could_not_join_ns_, [now](uint64_t told_ns) {
      return told_ns != 0 && now - told_ns < kToldLatelyNs;
    });
    if (!none) {
      return warnings_.warn(fmt::format("tenant '{}': {}", settings_.tenants[number].name, why));
    }
  }
  end(why, true);
}

// A tenant's pages are no reason to lose another's: all have to be drained. One that was may hold
// pages again, where no other node is left to.
void NodeFleets::drained(size_t number, bool is_drained) {
  bool all = false;
  {
    const std::lock_guard lock(mutex_);
    const bool was = drained_[number];
    drained_[number] = is_drained;
    all = std::ranges::find(drained_, false) == drained_.end();
    if (is_drained && !was && !all) {
      log_warning(
          fmt::format("the tenant '{}' is drained: other nodes have its pages; this process ends "
                      "once the other tenants are drained too",
                      settings_.tenants[number].name));
    }
  }
  if (all) end("drained: other nodes have this node's pages");
}

// All at once, for an etcd that does not answer is waited for.
void NodeFleets::leave() {
  std::vector<std::thread> leaving;
  for (const auto& fleet : fleets_) leaving.emplace_back([&fleet] { fleet->leave(); });
  for (std::thread& each : leaving) each.join();
}

}  // namespace farpage
