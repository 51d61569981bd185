#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/config/config.h"
#include "base/runtime.h"
#include "base/status.h"
#include "node/clients/memory_budget.h"
#include "node/node.h"
#include "node/settings/options.h"
#include "node/store/pool_handoff.h"
#include "tier/link/fleet.h"
#include "transport/fabric.h"

namespace farpage {

// The table [tenant.NAME] of a node's configuration.
struct TenantOptions {
  std::string name;
  std::string token_file;    // a secret of its clients alone
  uint64_t quota_bytes = 0;  // of node.pool_bytes
  // Of the node's, that this tenant's clients together can make it hold. 0: of what the tenants
  // with a number leave, half evenly, and half as the quota is of the pool.
  uint64_t staging_budget_bytes = 0;
};
std::vector<ConfigField> fields(TenantOptions& tenant);

// Their names, and whether pool and budget are enough for what they are promised together.
Result<void> validate(std::span<const TenantOptions> tenants, const NodeOptions& options);

// A node whose pages are its tenants': a memory node for each of them, with pool, index, clients
// and versions of its own, and a fabric of its own, so that a tenant's clients are never handed,
// and cannot name, what is another's. Where there are other nodes, each tenant's is a member of a
// fleet of that tenant's own. Itself it is what the node's operator asks: it answers status
// alone, of all of them. Everything runs on the runtime's thread.
class TenantNodes final : public NodeService {
 public:
  // `fabrics`: one for each tenant; they outlive this. `keepers`: likewise, of each tenant's pool;
  // null for one whose pages end with the process. `fleets`: one for each tenant, whose node is the
  // member `self` of it; none: they serve alone. Takes one epoch from the state file.
  static Result<std::unique_ptr<TenantNodes>> create(
      const NodeOptions& options, std::span<const TenantOptions> tenants, Runtime& runtime,
      std::span<Fabric* const> fabrics, std::span<PoolHandoff* const> keepers,
      std::span<const Fleet> fleets = {}, NodeId self = 0);
  ~TenantNodes() override;

  // The node that each tenant's clients reach, in the order of create(). Its status is of itself
  // alone.
  NodeService& tenant(size_t number);
  size_t tenants() const { return tenants_.size(); }

  Result<ClientId> connected() override;
  void handle(ClientId client, Request request, std::function<void(Reply)> done) override;
  void disconnected(ClientId client) override;
  StatusReply status() const override;

 private:
  class Tenant;
  TenantNodes(uint64_t max_clients, std::shared_ptr<MemoryBudget> budget);

  const uint64_t max_clients_;
  const std::shared_ptr<MemoryBudget> budget_;  // of which each tenant's is a part
  std::vector<std::unique_ptr<Tenant>> tenants_;
  uint64_t clients_ = 0;  // that are connected to this itself
  ClientId last_client_ = 0;
};

}  // namespace farpage
