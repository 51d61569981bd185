#include "node/tenants.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/units.h"
#include "node/epoch_file.h"
#include "node/memory_node.h"
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

// The node's own, as if this tenant were all of it.
NodeOptions options_of(const NodeOptions& node, const TenantOptions& tenant) {
  NodeOptions options = node;
  options.pool_bytes = tenant.quota_bytes;
  const auto share = static_cast<unsigned __int128>(node.scrub_bytes_per_s) * tenant.quota_bytes;
  options.scrub_bytes_per_s = static_cast<uint64_t>(share / node.pool_bytes);
  return options;
}

void add(std::vector<PathTraffic>& sum, const PathTraffic& path) {
  const auto found = std::ranges::find(sum, path.path, &PathTraffic::path);
  if (found == sum.end()) return sum.push_back(path);
  found->connections += path.connections;
  found->reads += path.reads;
  found->read_bytes += path.read_bytes;
  found->writes += path.writes;
  found->write_bytes += path.write_bytes;
  found->refused += path.refused;
}

// What the whole port has carried each of them tells alike.
void add(std::vector<PortTraffic>& sum, const PortTraffic& port) {
  const auto found = std::ranges::find(sum, port.port, &PortTraffic::port);
  if (found == sum.end()) return sum.push_back(port);
  found->connections += port.connections;
  found->refused += port.refused;
  found->immediates += port.immediates;
}

// `sum` and `one` are of the same process.
void add(StatusReply& sum, const StatusReply& one) {
  constexpr uint64_t StatusReply::*kCounts[] = {
      &StatusReply::slots,         &StatusReply::slots_live, &StatusReply::slots_free,
      &StatusReply::slots_cooling, &StatusReply::clients,    &StatusReply::puts,
      &StatusReply::put_bytes,     &StatusReply::removes,    &StatusReply::puts_refused,
      &StatusReply::evictions,     &StatusReply::renewals};
  for (const auto count : kCounts) sum.*count += one.*count;
  add_saturating(sum.verdicts, one.verdicts);
  sum.epoch = std::max(sum.epoch, one.epoch);
  constexpr uint64_t PushCounts::*kPushes[] = {&PushCounts::lanes, &PushCounts::pages,
                                               &PushCounts::bytes, &PushCounts::missed,
                                               &PushCounts::late,  &PushCounts::refused};
  for (const auto count : kPushes) sum.pushes.*count += one.pushes.*count;
  constexpr uint64_t ScrubCounts::*kScrubs[] = {&ScrubCounts::passes, &ScrubCounts::bytes,
                                                &ScrubCounts::dropped, &ScrubCounts::entries};
  for (const auto count : kScrubs) sum.scrubs.*count += one.scrubs.*count;
  for (const PathTraffic& path : one.traffic) add(sum.traffic, path);
  for (const PortTraffic& port : one.ports) add(sum.ports, port);
}

}  // namespace

std::vector<ConfigField> fields(TenantOptions& tenant) {
  return {{"token_file", &tenant.token_file}, {"quota_bytes", &tenant.quota_bytes}};
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
                  fmt::format("'{}' is no name for a tenant: write [tenant.NAME], with letters, "
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
  return {};
}

class TenantNodes::Tenant final : public NodeService {
 public:
  Tenant(const NodeOptions& node, const TenantOptions& tenant, Runtime& runtime, Fabric& fabric,
         MemoryNode::Run run)
      : options_(options_of(node, tenant)),
        name_(tenant.name),
        node_(options_, runtime, fabric, std::move(run)) {}

  Result<ClientId> connected() override { return node_.connected(); }
  void disconnected(ClientId client) override { node_.disconnected(client); }

  void handle(ClientId client, Request request, std::function<void(Reply)> done) override {
    if (std::holds_alternative<StatusRequest>(request)) return done(status());
    if (!options_.evict && std::holds_alternative<CommitRequest>(request)) {
      done = [this, done = std::move(done)](Reply reply) {
        tell_of_quota(reply);
        done(std::move(reply));
      };
    }
    node_.handle(client, std::move(request), std::move(done));
  }

  // What the process and its ports do for others is none of its business.
  StatusReply status() const override {
    StatusReply reply = whole_status();
    reply.cpu_ns = 0;
    for (PortTraffic& port : reply.ports) port.counts = {};
    return reply;
  }

  StatusReply whole_status() const {
    StatusReply reply = node_.status();
    reply.tenants = {{.name = name_,
                      .quota_bytes = options_.pool_bytes,
                      .held_bytes = reply.slots_live * reply.page_bytes,
                      .clients = reply.clients,
                      .puts = reply.puts,
                      .put_bytes = reply.put_bytes,
                      .puts_refused = reply.puts_refused,
                      .removes = reply.removes,
                      .evictions = reply.evictions}};
    return reply;
  }

 private:
  void tell_of_quota(const Reply& reply) {
    const auto* commit = std::get_if<CommitReply>(&reply);
    if (commit == nullptr) return;
    if (std::ranges::count(commit->results, Code::kExhausted, &CommitResult::code) == 0) return;
    warnings_.warn(
        fmt::format("puts of the tenant '{0}' are refused, for its quota of {1} is used "
                    "up: raise tenant.{0}.quota_bytes, or let its pages make room for "
                    "each other with node.evict = true",
                    name_, format_bytes(options_.pool_bytes)));
  }

  const NodeOptions options_;
  const std::string name_;
  WarningLimiter warnings_;
  MemoryNode node_;
};

TenantNodes::TenantNodes(uint64_t max_clients) : max_clients_(max_clients) {}
TenantNodes::~TenantNodes() = default;

// One file for all: what the run before this one left to wait for binds each tenant, also one that
// had another name then.
Result<std::unique_ptr<TenantNodes>> TenantNodes::create(const NodeOptions& options,
                                                         std::span<const TenantOptions> tenants,
                                                         Runtime& runtime,
                                                         std::span<Fabric* const> fabrics) {
  FARPAGE_CHECK(fabrics.size() == tenants.size());
  if (auto valid = options.validate(); !valid) return tl::unexpected(valid.error());
  if (auto valid = validate(tenants, options); !valid) return tl::unexpected(valid.error());
  auto opened = EpochFile::open(options.state);
  if (!opened) return tl::unexpected(opened.error());
  const auto file = std::make_shared<EpochFile>(std::move(*opened));
  std::vector<MemoryNode::Run> runs;
  for (size_t i = 0; i < tenants.size(); ++i) {
    auto run = MemoryNode::make_run(options_of(options, tenants[i]), runtime, *fabrics[i], nullptr,
                                    nullptr, {});
    if (!run) {
      return fail(run.error().code, fmt::format("no pool for the tenant '{}': {}", tenants[i].name,
                                                run.error().message));
    }
    runs.push_back(std::move(*run));
  }
  const uint64_t lease_ns = options.lease_ms * kMillisecond;
  const auto epoch = file->advance(lease_ns);
  if (!epoch) return tl::unexpected(epoch.error());
  auto nodes = std::unique_ptr<TenantNodes>(new TenantNodes(options.max_clients));
  for (size_t i = 0; i < tenants.size(); ++i) {
    runs[i].versions = std::make_shared<Versions>(file, *epoch, lease_ns, runtime.clock().now_ns());
    nodes->tenants_.push_back(
        std::make_unique<Tenant>(options, tenants[i], runtime, *fabrics[i], std::move(runs[i])));
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
               "the client's token is the node's own, which opens its status alone: the pages are "
               "its tenants', each with a token of its own ([tenant.NAME] at the node)",
               {}});
}

StatusReply TenantNodes::status() const {
  StatusReply sum;
  for (const auto& tenant : tenants_) {
    StatusReply one = tenant->whole_status();
    sum.tenants.push_back(std::move(one.tenants.front()));
    if (&tenant == &tenants_.front()) {
      one.tenants = std::move(sum.tenants);
      sum = std::move(one);
    } else {
      add(sum, one);
    }
  }
  return sum;
}

}  // namespace farpage
