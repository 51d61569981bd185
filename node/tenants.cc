#include "node/tenants.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/units.h"
#include "control/status/status_table.h"
#include "node/fleet_node.h"
#include "node/memory_node.h"
#include "node/settings/epoch_file.h"
#include "node/settings/versions.h"
#include "node/store/name_spaces.h"
#include "pagetable/geometry.h"

namespace farpage {
namespace {

constexpr size_t kMaxNameBytes = 64;

bool is_name(const std::string& name) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
  };
  return !name.empty() && name.size() <= kMaxNameBytes && std::ranges::all_of(name, fits);
}

// As the tenant's quota is of the pool.
uint64_t share(const NodeOptions& node, const TenantOptions& tenant, uint64_t bytes) {
  const auto product = static_cast<unsigned __int128>(bytes) * tenant.quota_bytes;
  return static_cast<uint64_t>(product / node.pool_bytes);
}

// The node's own, as if this tenant were all of it.
NodeOptions options_of(const NodeOptions& node, const TenantOptions& tenant) {
  NodeOptions options = node;
  options.pool_bytes = tenant.quota_bytes;
  options.scrub_bytes_per_s = share(node, tenant, node.scrub_bytes_per_s);
  options.fill_bytes_per_s = std::max(share(node, tenant, node.fill_bytes_per_s), node.page_bytes);
  return options;
}

// Of the node's `budget_bytes`, by tenant. Half of the rest of the budget is for all alike, so that
// a small quota still lets a client in.
std::vector<uint64_t> budgets_of(const NodeOptions& node, std::span<const TenantOptions> tenants,
                                 uint64_t budget_bytes) {
  uint64_t left_bytes = budget_bytes;
  uint64_t unnamed = 0;
  for (const TenantOptions& tenant : tenants) {
    left_bytes -= std::min(left_bytes, tenant.staging_budget_bytes);
    unnamed += tenant.staging_budget_bytes == 0 ? 1 : 0;
  }
  std::vector<uint64_t> budgets;
  for (const TenantOptions& tenant : tenants) {
    const uint64_t named = tenant.staging_budget_bytes;
    budgets.push_back(named != 0 ? named
                                 : left_bytes / 2 / unnamed + share(node, tenant, left_bytes / 2));
  }
  return budgets;
}

Result<void> check_budgets(std::span<const TenantOptions> tenants, const NodeOptions& options) {
  const uint64_t all_bytes = options.client_budget_bytes(tenants.size());
  const std::vector<uint64_t> budgets = budgets_of(options, tenants, all_bytes);
  uint64_t left_bytes = all_bytes;
  for (size_t i = 0; i < tenants.size(); ++i) {
    const TenantOptions& tenant = tenants[i];
    const uint64_t bytes = budgets[i];
    if (bytes < options.page_bytes) {
      return fail(
          Code::kInvalid,
          fmt::format("tenant.{}.staging_budget_bytes is {}, which is less than one page of "
                      "{}: raise it, or node.staging_budget_bytes",
                      tenant.name, format_bytes(bytes), format_bytes(options.page_bytes)));
    }
    if (bytes > left_bytes) {
      return fail(Code::kInvalid,
                  fmt::format("the tenants' budgets are more than node.staging_budget_bytes, which "
                              "is {}: for tenant.{}.staging_budget_bytes = {} there are {} left",
                              format_bytes(all_bytes), tenant.name, format_bytes(bytes),
                              format_bytes(left_bytes)));
    }
    left_bytes -= bytes;
  }
  return {};
}

// `fleet`: null where it serves alone.
Result<std::unique_ptr<NodeService>> make_node(const NodeOptions& options, Runtime& runtime,
                                               Fabric& fabric, PoolHandoff* keeper,
                                               const Fleet* fleet, NodeId self,
                                               std::shared_ptr<Versions> versions,
                                               std::shared_ptr<MemoryBudget> budget) {
  if (fleet != nullptr) {
    auto member = std::make_unique<FleetNode>(options, runtime, fabric, *fleet, self,
                                              std::move(versions), std::move(budget), keeper);
    if (auto begun = member->begin(); !begun) return tl::unexpected(begun.error());
    return member;
  }
  auto run = MemoryNode::make_run(options, runtime, fabric, std::move(versions), std::move(budget),
                                  keeper, "alone");
  if (!run) return tl::unexpected(run.error());
  MemoryNode::adopt_former(*run);
  return std::make_unique<MemoryNode>(options, runtime, fabric, std::move(*run));
}

// Each is added to the one of the same name.
template <typename Record>
void add_by_name(std::vector<Record>& sums, const std::vector<Record>& more,
                 std::string Record::*name) {
  for (const Record& one : more) {
    const auto found = std::ranges::find(sums, one.*name, name);
    if (found == sums.end()) {
      sums.push_back(one);
    } else {
      add_up(*found, one);
    }
  }
}

// A peer counts as reached only if it is reached for every tenant.
void add(FleetStatus& sum, const FleetStatus& one) {
  if (one.node == 0) return;
  add_up(sum, one);
  for (const MemberStatus& other : one.others) {
    const auto found = std::ranges::find(sum.others, other.node, &MemberStatus::node);
    if (found == sum.others.end()) {
      sum.others.push_back(other);
    } else {
      found->reached = found->reached && other.reached;
    }
  }
}

// `sum` and `one` are of the same process.
void add(StatusReply& sum, const StatusReply& one) {
  add_up(sum, one);
  add_up(sum.verdicts, one.verdicts);
  add_up(sum.budget, one.budget);
  add_up(sum.pushes, one.pushes);
  add_up(sum.scrubs, one.scrubs);
  add(sum.fleet, one.fleet);
  add_by_name(sum.traffic, one.traffic, &PathTraffic::path);
  add_by_name(sum.ports, one.ports, &PortTraffic::port);
  add_by_name(sum.name_spaces, one.name_spaces, &NameSpaceStatus::name_space);
}

}  // namespace

std::vector<ConfigField> fields(TenantOptions& tenant) {
  return {{"token_file", &tenant.token_file},
          {"quota_bytes", &tenant.quota_bytes},
          {"staging_budget_bytes", &tenant.staging_budget_bytes}};
}

Result<void> validate(std::span<const TenantOptions> tenants, const NodeOptions& options) {
  if (tenants.size() > kMaxTenants) {
    return fail(Code::kInvalid,
                fmt::format("there are {} tables [tenant.NAME], and a node takes {} at most",
                            tenants.size(), kMaxTenants));
  }
  uint64_t left_bytes = options.pool_bytes;
  for (const TenantOptions& tenant : tenants) {
    if (!is_name(tenant.name)) {
      return fail(Code::kInvalid,
                  fmt::format("'{}' is not a valid tenant name: write [tenant.NAME], with letters, "
                              "digits, '-' and '_', {} at most",
                              tenant.name, kMaxNameBytes));
    }
    const auto same = std::ranges::count(tenants, tenant.name, &TenantOptions::name);
    if (same > 1) {
      return fail(Code::kInvalid, fmt::format("there are {} tenants '{}'", same, tenant.name));
    }
    if (tenant.token_file.empty()) {
      return fail(Code::kInvalid,
                  fmt::format("tenant.{0}.token_file is empty: name a file with a token of this "
                              "tenant's own, made with 'openssl rand -hex 32'",
                              tenant.name));
    }
    if (auto fits = make_geometry(options.page_bytes, tenant.quota_bytes); !fits) {
      return fail(Code::kInvalid, fmt::format("tenant.{}.quota_bytes is {}: {}", tenant.name,
                                              tenant.quota_bytes, fits.error().message));
    }
    if (tenant.quota_bytes > left_bytes) {
      return fail(Code::kInvalid,
                  fmt::format("the tenants' quotas are more than node.pool_bytes, which is {}: "
                              "for tenant.{}.quota_bytes = {} there are {} left",
                              format_bytes(options.pool_bytes), tenant.name,
                              format_bytes(tenant.quota_bytes), format_bytes(left_bytes)));
    }
    left_bytes -= tenant.quota_bytes;
  }
  return check_budgets(tenants, options);
}

class TenantNodes::Tenant final : public NodeService {
 public:
  // `options`: with the tenant's quota as pool. `is_member`: of a fleet.
  Tenant(std::string name, NodeOptions options, bool is_member, std::unique_ptr<NodeService> node)
      : name_(std::move(name)),
        options_(std::move(options)),
        is_member_(is_member),
        node_(std::move(node)) {}

  Result<ClientId> connected() override { return node_->connected(); }
  void disconnected(ClientId client) override { node_->disconnected(client); }

  void handle(ClientId client, Request request, std::function<void(Reply)> done) override {
    if (std::holds_alternative<StatusRequest>(request)) return done(status());
    if (!options_.evict && std::holds_alternative<CommitRequest>(request)) {
      done = [this, done = std::move(done)](Reply reply) {
        tell_of_quota(reply);
        done(std::move(reply));
      };
    }
    node_->handle(client, std::move(request), std::move(done));
  }

  // A tenant's status leaves out what the process and its ports do for others.
  StatusReply status() const override {
    StatusReply reply = whole_status();
    reply.cpu_ns = 0;
    for (PortTraffic& port : reply.ports) port.counts = {};
    return reply;
  }

  StatusReply whole_status() const {
    StatusReply reply = node_->status();
    reply.tenants = {{.name = name_,
                      .quota_bytes = options_.pool_bytes,
                      .held_bytes = reply.slots_live * reply.page_bytes,
                      .clients = reply.clients,
                      .puts = reply.puts,
                      .put_bytes = reply.put_bytes,
                      .puts_refused = reply.puts_refused,
                      .removes = reply.removes,
                      .evictions = reply.evictions,
                      .budget = reply.budget}};
    return reply;
  }

 private:
  void tell_of_quota(const Reply& reply) {
    const auto* commit = std::get_if<CommitReply>(&reply);
    if (commit == nullptr) return;
    if (std::ranges::count(commit->results, Code::kExhausted, &CommitResult::code) == 0) return;
    warnings_.warn(
        fmt::format("puts of the tenant '{0}' are refused, for its quota of {1} is used "
                    "up{2}: raise tenant.{0}.quota_bytes, or let its pages make room for "
                    "each other with node.evict = true",
                    name_, format_bytes(options_.pool_bytes),
                    is_member_ ? ", here or at another node of its fleet" : ""));
  }

  const std::string name_;
  const NodeOptions options_;
  const bool is_member_;
  WarningLimiter warnings_;
  const std::unique_ptr<NodeService> node_;
};

TenantNodes::TenantNodes(uint64_t max_clients, std::shared_ptr<MemoryBudget> budget)
    : max_clients_(max_clients), budget_(std::move(budget)) {}
TenantNodes::~TenantNodes() = default;

// One file for all: what the run before this one left to wait for binds each tenant, also one that
// had another name then, and no tenant's versions go back, wherever it was meanwhile.
Result<std::unique_ptr<TenantNodes>> TenantNodes::create(
    const NodeOptions& options, std::span<const TenantOptions> tenants, Runtime& runtime,
    std::span<Fabric* const> fabrics, std::span<PoolHandoff* const> keepers,
    std::span<const Fleet> fleets, NodeId self) {
  FARPAGE_CHECK(fabrics.size() == tenants.size() && keepers.size() == tenants.size());
  FARPAGE_CHECK(fleets.empty() || fleets.size() == tenants.size());
  if (auto valid = options.validate(); !valid) return tl::unexpected(valid.error());
  if (auto valid = validate(tenants, options); !valid) return tl::unexpected(valid.error());
  for (const Fleet& fleet : fleets) {
    if (auto fits = FleetNode::check(options, fleet, self); !fits) {
      return tl::unexpected(fits.error());
    }
  }
  auto opened = EpochFile::open(options.state);
  if (!opened) return tl::unexpected(opened.error());
  const auto file = std::make_shared<EpochFile>(std::move(*opened));
  const uint64_t lease_ns = options.lease_ms * kMillisecond;
  const auto epoch = file->advance(lease_ns, options.least_epoch);
  if (!epoch) return tl::unexpected(epoch.error());
  const uint64_t now = runtime.clock().now_ns();
  const uint64_t budget_bytes = options.client_budget_bytes(tenants.size());
  const auto budget = MemoryBudget::make("node.staging_budget_bytes", budget_bytes);
  const std::vector<uint64_t> budgets = budgets_of(options, tenants, budget_bytes);
  auto nodes = std::unique_ptr<TenantNodes>(new TenantNodes(options.max_clients, budget));
  for (size_t i = 0; i < tenants.size(); ++i) {
    NodeOptions own = options_of(options, tenants[i]);
    auto node =
        make_node(own, runtime, *fabrics[i], keepers[i], fleets.empty() ? nullptr : &fleets[i],
                  self, std::make_shared<Versions>(file, *epoch, lease_ns, now),
                  MemoryBudget::make(fmt::format("tenant.{}.staging_budget_bytes", tenants[i].name),
                                     budgets[i], budget));
    if (!node) {
      return fail(node.error().code, fmt::format("no pool for the tenant '{}': {}", tenants[i].name,
                                                 node.error().message));
    }
    nodes->tenants_.push_back(std::make_unique<Tenant>(tenants[i].name, std::move(own),
                                                       !fleets.empty(), std::move(*node)));
  }
  return nodes;
}

NodeService& TenantNodes::tenant(size_t number) {
  return *tenants_[number];
}

Result<ClientId> TenantNodes::connected() {
  if (clients_ >= max_clients_) {
    return fail(Code::kExhausted, fmt::format("{} ask this node for its status already, which is "
                                              "node.max_clients",
                                              clients_));
  }
  ++clients_;
  return ++last_client_;
}

void TenantNodes::disconnected(ClientId) {
  --clients_;
}

void TenantNodes::handle(ClientId, Request request, std::function<void(Reply)> done) {
  if (std::holds_alternative<StatusRequest>(request)) return done(status());
  done(Refusal{Code::kDenied,
               "the client's token is the operator's, which opens only the node's status: pages "
               "belong to tenants, each with a token of its own ([tenant.NAME] at the node)",
               {}});
}

// One that was left out of its fleet and is not back tells nothing but its name.
StatusReply TenantNodes::status() const {
  StatusReply sum;
  std::vector<TenantStatus> all;
  for (const auto& tenant : tenants_) {
    StatusReply one = tenant->whole_status();
    all.push_back(std::move(one.tenants.front()));
    if (sum.page_bytes == 0) {
      sum = std::move(one);
    } else {
      add(sum, one);
    }
  }
  sum.budget.bytes = budget_->bytes();
  sum.budget.granted_bytes = budget_->granted_bytes();
  sum.tenants = std::move(all);
  keep_largest(sum.name_spaces);
  return sum;
}

}  // namespace farpage
