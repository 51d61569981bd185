#include "node/node_metrics.h"

#include <fmt/format.h>

namespace farpage {
namespace {

double as_double(uint64_t number) {
  return static_cast<double>(number);
}
double as_seconds(uint64_t duration_ns) {
  return static_cast<double>(duration_ns) / 1e9;
}

void describe_pool(const StatusReply& status, MetricVisitor& visitor) {
  visitor.family("farpage_node_slots", "Slots of the pool, by state", MetricKind::kGauge);
  visitor.value({{"state", "live"}}, as_double(status.slots_live));
  visitor.value({{"state", "free"}}, as_double(status.slots_free));
  visitor.value({{"state", "cooling"}}, as_double(status.slots_cooling));
  visitor.gauge("farpage_node_slot_bytes", "The longest page that a slot takes",
                as_double(status.page_bytes));
}

void describe_counts(const StatusReply& status, MetricVisitor& visitor) {
  visitor.gauge("farpage_node_clients", "Clients that are connected", as_double(status.clients));
  visitor.counter("farpage_node_puts_total", "Pages stored", as_double(status.puts));
  visitor.counter("farpage_node_put_bytes_total", "Bytes of the pages stored",
                  as_double(status.put_bytes));
  visitor.counter("farpage_node_puts_refused_total", "Pages that were not stored",
                  as_double(status.puts_refused));
  visitor.counter("farpage_node_removes_total", "Pages removed by clients",
                  as_double(status.removes));
  visitor.counter("farpage_node_evictions_total", "Pages that made room for others",
                  as_double(status.evictions));
  visitor.counter("farpage_node_renewals_total", "Leases renewed", as_double(status.renewals));
}

void describe_scrubs(const ScrubCounts& scrubs, MetricVisitor& visitor) {
  visitor.counter("farpage_node_scrub_passes_total", "Times that the whole pool was looked at",
                  as_double(scrubs.passes));
  visitor.counter("farpage_node_scrubbed_bytes_total", "Bytes of pages looked at unasked",
                  as_double(scrubs.bytes));
  visitor.counter("farpage_node_scrub_dropped_pages_total",
                  "Pages looked at unasked and found corrupt", as_double(scrubs.dropped));
  visitor.counter("farpage_node_scrub_mended_entries_total",
                  "Entries of the index that were damaged where clients read them",
                  as_double(scrubs.entries));
}

void describe_budget(const ClientBudgetStatus& budget, MetricVisitor& visitor) {
  visitor.gauge("farpage_node_client_budget_bytes",
                "Memory that clients may make the node hold beside its pool",
                as_double(budget.bytes));
  visitor.gauge("farpage_node_client_granted_bytes",
                "Memory that clients make the node hold: staging above all",
                as_double(budget.granted_bytes));
  visitor.counter("farpage_node_client_grants_refused_total",
                  "Grants to clients that the budget had no room for", as_double(budget.refused));
}

void describe_pushes(const PushCounts& pushes, MetricVisitor& visitor) {
  visitor.gauge("farpage_node_push_lanes", "Push lanes of clients that are open",
                as_double(pushes.lanes));
  visitor.counter("farpage_node_pushed_pages_total", "Pages written to clients",
                  as_double(pushes.pages));
  visitor.counter("farpage_node_pushed_bytes_total", "Bytes of the pages written to clients",
                  as_double(pushes.bytes));
  visitor.counter("farpage_node_push_missed_pages_total", "Pages to push that were not there",
                  as_double(pushes.missed));
  visitor.counter("farpage_node_push_late_pages_total", "Pages that it was too late to push",
                  as_double(pushes.late));
  visitor.counter("farpage_node_push_refused_total", "Push lanes and pushes refused",
                  as_double(pushes.refused));
}

void describe_reports(const VerdictCounts& verdicts, MetricVisitor& visitor) {
  visitor.counter("farpage_node_reported_fetches_total", "Fetches, as the clients tell",
                  as_double(verdicts.fetches));
  visitor.counter("farpage_node_reported_ready_pages_total",
                  "Pages that were ready, as the clients tell", as_double(verdicts.ready));
  visitor.counter("farpage_node_reported_ready_bytes_total",
                  "Bytes of the pages that were ready, as the clients tell",
                  as_double(verdicts.ready_bytes));
  visitor.family("farpage_node_reported_recompute_pages_total",
                 "Pages to recompute, by reason, as the clients tell", MetricKind::kCounter);
  visitor.value({{"reason", "miss"}}, as_double(verdicts.miss));
  visitor.value({{"reason", "stale"}}, as_double(verdicts.stale));
  visitor.value({{"reason", "corrupt"}}, as_double(verdicts.corrupt));
  visitor.value({{"reason", "stalled"}}, as_double(verdicts.stalled));
  visitor.value({{"reason", "unreachable"}}, as_double(verdicts.unreachable));
  visitor.value({{"reason", "slower"}}, as_double(verdicts.slower));
}

void describe_process(const StatusReply& status, MetricVisitor& visitor) {
  visitor.counter("farpage_node_cpu_seconds_total", "CPU time of the node's process",
                  as_seconds(status.cpu_ns));
  visitor.gauge("farpage_node_epoch", "The node's epoch, which grows with each run",
                as_double(status.epoch));
  visitor.gauge("farpage_node_uptime_seconds", "How long the node has been up",
                as_seconds(status.uptime_ns));
}

// Where the node does not see its clients' reads, these families have no values.
void describe_traffic(const std::vector<PathTraffic>& traffic, MetricVisitor& visitor) {
  struct Family {
    const char* name;
    const char* help;
    MetricKind kind;
    uint64_t PathTraffic::*number;
  };
  constexpr MetricKind kCounter = MetricKind::kCounter;
  static constexpr Family kFamilies[] = {
      {"farpage_transport_connections", "Connections that are open", MetricKind::kGauge,
       &PathTraffic::connections},
      {"farpage_transport_reads_total", "Reads by clients", kCounter, &PathTraffic::reads},
      {"farpage_transport_read_bytes_total", "Bytes read by clients", kCounter,
       &PathTraffic::read_bytes},
      {"farpage_transport_writes_total", "Writes by clients", kCounter, &PathTraffic::writes},
      {"farpage_transport_write_bytes_total", "Bytes written by clients", kCounter,
       &PathTraffic::write_bytes},
      {"farpage_transport_refused_total", "Operations and connections refused", kCounter,
       &PathTraffic::refused},
  };
  for (const Family& family : kFamilies) {
    visitor.family(family.name, family.help, family.kind);
    for (const PathTraffic& path : traffic) {
      visitor.value({{"path", path.path}}, as_double(path.*family.number));
    }
  }
}

// Where no device answers the clients, these families have no values.
void describe_ports(const std::vector<PortTraffic>& ports, MetricVisitor& visitor) {
  const auto family = [&](const char* name, const char* help, MetricKind kind, const auto& number) {
    visitor.family(name, help, kind);
    for (const PortTraffic& port : ports) {
      if (const std::optional<double> value = number(port)) {
        visitor.value({{"port", port.port}}, *value);
      }
    }
  };
  const auto own = [&](const char* name, const char* help, MetricKind kind,
                       uint64_t PortTraffic::*number) {
    family(name, help, kind,
           [&](const PortTraffic& port) { return std::optional(as_double(port.*number)); });
  };
  const auto counted = [&](const char* name, const char* help,
                           std::optional<uint64_t> PortCounts::*number) {
    family(name, help, MetricKind::kCounter, [&](const PortTraffic& port) {
      const std::optional<uint64_t>& count = port.counts.*number;
      return count ? std::optional(as_double(*count)) : std::nullopt;
    });
  };
  constexpr uint64_t kBitsInByte = 8;
  family("farpage_port_link_bytes_per_second", "Rate of the link, as the device says",
         MetricKind::kGauge, [](const PortTraffic& port) {
           return port.link_bits_per_s == 0
                      ? std::nullopt
                      : std::optional(as_double(port.link_bits_per_s) / kBitsInByte);
         });
  own("farpage_port_connections", "Connections of clients that are open", MetricKind::kGauge,
      &PortTraffic::connections);
  own("farpage_port_refused_total", "Connections refused", MetricKind::kCounter,
      &PortTraffic::refused);
  own("farpage_port_immediates_total", "Immediates that have come, each behind a transfer",
      MetricKind::kCounter, &PortTraffic::immediates);
  counted("farpage_port_sent_bytes_total", "Bytes that the whole port has sent",
          &PortCounts::sent_bytes);
  counted("farpage_port_received_bytes_total", "Bytes that the whole port has received",
          &PortCounts::received_bytes);
  counted("farpage_port_sent_packets_total", "Packets that the whole port has sent",
          &PortCounts::sent_packets);
  counted("farpage_port_received_packets_total", "Packets that the whole port has received",
          &PortCounts::received_packets);
}

// Where the node serves alone, these families have no values.
void describe_fleet(const FleetStatus& fleet, MetricVisitor& visitor) {
  struct Family {
    const char* name;
    const char* help;
    MetricKind kind;
    uint64_t FleetStatus::*number;
  };
  constexpr MetricKind kCounter = MetricKind::kCounter;
  static constexpr Family kFamilies[] = {
      {"farpage_fleet_replicas", "Nodes that hold each key", MetricKind::kGauge,
       &FleetStatus::replicas},
      {"farpage_fleet_replicated_pages_total",
       "Pages put or removed here that all others of their set have taken over", kCounter,
       &FleetStatus::replicated},
      {"farpage_fleet_applied_pages_total", "Pages taken over from their primaries", kCounter,
       &FleetStatus::applied},
      {"farpage_fleet_filled_pages_total", "Pages that this node lacked and has brought", kCounter,
       &FleetStatus::filled},
      {"farpage_fleet_filled_bytes_total", "Bytes of the pages brought", kCounter,
       &FleetStatus::filled_bytes},
      {"farpage_fleet_pages_to_fill", "Pages that this node knows that it lacks",
       MetricKind::kGauge, &FleetStatus::to_fill},
      {"farpage_fleet_repaired_pages_total", "Pages brought in the place of corrupt ones", kCounter,
       &FleetStatus::repaired},
      {"farpage_fleet_dropped_pages_total", "Pages reported and found corrupt", kCounter,
       &FleetStatus::dropped},
      {"farpage_fleet_puts_without_replica_total",
       "Pages that were not stored because a replica was not reached", kCounter,
       &FleetStatus::puts_without_replica},
  };
  visitor.family("farpage_fleet_member_reached", "1: this node reaches that member",
                 MetricKind::kGauge);
  for (const MemberStatus& member : fleet.others) {
    visitor.value({{"node", fmt::format("{:016x}", member.node)}}, member.reached ? 1 : 0);
  }
  for (const Family& family : kFamilies) {
    visitor.family(family.name, family.help, family.kind);
    if (fleet.node != 0) visitor.value({}, as_double(fleet.*family.number));
  }
}

// Without tenants these families have no values.
void describe_tenants(const std::vector<TenantStatus>& tenants, MetricVisitor& visitor) {
  struct Family {
    const char* name;
    const char* help;
    MetricKind kind;
    uint64_t TenantStatus::*number;
  };
  constexpr MetricKind kCounter = MetricKind::kCounter;
  constexpr MetricKind kGauge = MetricKind::kGauge;
  static constexpr Family kFamilies[] = {
      {"farpage_tenant_quota_bytes", "Memory that the tenant's pages may take", kGauge,
       &TenantStatus::quota_bytes},
      {"farpage_tenant_held_bytes", "Memory of the slots that hold a page of the tenant", kGauge,
       &TenantStatus::held_bytes},
      {"farpage_tenant_clients", "Clients of the tenant that are connected", kGauge,
       &TenantStatus::clients},
      {"farpage_tenant_puts_total", "Pages stored", kCounter, &TenantStatus::puts},
      {"farpage_tenant_put_bytes_total", "Bytes of the pages stored", kCounter,
       &TenantStatus::put_bytes},
      {"farpage_tenant_puts_refused_total", "Pages that were not stored", kCounter,
       &TenantStatus::puts_refused},
      {"farpage_tenant_removes_total", "Pages removed by the tenant's clients", kCounter,
       &TenantStatus::removes},
      {"farpage_tenant_evictions_total", "Pages that made room for others of the same tenant",
       kCounter, &TenantStatus::evictions},
  };
  for (const Family& family : kFamilies) {
    visitor.family(family.name, family.help, family.kind);
    for (const TenantStatus& tenant : tenants) {
      visitor.value({{"tenant", tenant.name}}, as_double(tenant.*family.number));
    }
  }
}

void describe_tenant_budgets(const std::vector<TenantStatus>& tenants, MetricVisitor& visitor) {
  struct Family {
    const char* name;
    const char* help;
    MetricKind kind;
    uint64_t ClientBudgetStatus::*number;
  };
  static constexpr Family kFamilies[] = {
      {"farpage_tenant_client_budget_bytes",
       "Memory that the tenant's clients may make the node hold beside the quota",
       MetricKind::kGauge, &ClientBudgetStatus::bytes},
      {"farpage_tenant_client_granted_bytes", "Memory that the tenant's clients make the node hold",
       MetricKind::kGauge, &ClientBudgetStatus::granted_bytes},
      {"farpage_tenant_client_grants_refused_total",
       "Grants to the tenant's clients that its budget had no room for", MetricKind::kCounter,
       &ClientBudgetStatus::refused},
  };
  for (const Family& family : kFamilies) {
    visitor.family(family.name, family.help, family.kind);
    for (const TenantStatus& tenant : tenants) {
      visitor.value({{"tenant", tenant.name}}, as_double(tenant.budget.*family.number));
    }
  }
}

}  // namespace

void describe(const StatusReply& status, MetricVisitor& visitor) {
  describe_pool(status, visitor);
  describe_counts(status, visitor);
  describe_budget(status.budget, visitor);
  describe_pushes(status.pushes, visitor);
  describe_scrubs(status.scrubs, visitor);
  describe_reports(status.verdicts, visitor);
  describe_process(status, visitor);
  describe_traffic(status.traffic, visitor);
  describe_ports(status.ports, visitor);
  describe_fleet(status.fleet, visitor);
  describe_tenants(status.tenants, visitor);
  describe_tenant_budgets(status.tenants, visitor);
}

}  // namespace farpage
