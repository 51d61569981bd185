#include "control/status/status_table.h"

#include <algorithm>
#include <array>

namespace farpage {
namespace {

using enum FigureSum;

constexpr const char* kSlotsHelp = "Slots of the pool, by state";
constexpr const char* kReasonHelp = "Pages to recompute, by reason, as the clients tell";

}  // namespace

std::span<const Figure<StatusReply>> figures(const StatusReply&) {
  static constexpr auto kFigures = std::to_array<Figure<StatusReply>>({
      {"epoch", &StatusReply::epoch, kMost, "farpage_node_epoch",
       "The node's epoch, which grows with each run"},
      {"uptime_ns", &StatusReply::uptime_ns, kFirst, "farpage_node_uptime_seconds",
       "How long the node has been up"},
      {"cpu_ns", &StatusReply::cpu_ns, kFirst, "farpage_node_cpu_seconds_total",
       "CPU time of the node's process"},
      {"page_bytes", &StatusReply::page_bytes, kFirst, "farpage_node_slot_bytes",
       "The longest page that a slot takes"},
      {"slots", &StatusReply::slots},
      {"slots_live", &StatusReply::slots_live, kAdd, "farpage_node_slots{state=live}", kSlotsHelp},
      {"slots_free", &StatusReply::slots_free, kAdd, "farpage_node_slots{state=free}", kSlotsHelp},
      {"slots_cooling", &StatusReply::slots_cooling, kAdd, "farpage_node_slots{state=cooling}",
       kSlotsHelp},
      {"clients", &StatusReply::clients, kAdd, "farpage_node_clients", "Clients that are connected",
       "clients", "{clients}"},
      {"puts", &StatusReply::puts, kAdd, "farpage_node_puts_total", "Pages stored", "puts",
       "{puts} ({put_bytes}), {puts_refused} refused{puts_rate}{put_bytes_rate}"},
      {"put_bytes", &StatusReply::put_bytes, kAdd, "farpage_node_put_bytes_total",
       "Bytes of the pages stored"},
      {"puts_refused", &StatusReply::puts_refused, kAdd, "farpage_node_puts_refused_total",
       "Pages that were not stored"},
      {"puts_in_place", &StatusReply::puts_in_place, kAdd, "farpage_node_puts_in_place_total",
       "Pages stored straight from their clients' memory"},
      {"sources", &StatusReply::sources, kAdd, "farpage_node_sources",
       "Clients' memory that the node reads in place"},
      {"removes", &StatusReply::removes, kAdd, "farpage_node_removes_total",
       "Pages removed by clients", "removes", "{removes}{removes_rate}"},
      {"evictions", &StatusReply::evictions, kAdd, "farpage_node_evictions_total",
       "Pages that made room for others", "evictions", "{evictions}{evictions_rate}"},
      {"renewals", &StatusReply::renewals, kAdd, "farpage_node_renewals_total", "Leases renewed"},
  });
  return kFigures;
}

std::span<const Figure<VerdictCounts>> figures(const VerdictCounts&) {
  static constexpr auto kFigures = std::to_array<Figure<VerdictCounts>>({
      {"fetches", &VerdictCounts::fetches, kAdd, "farpage_node_reported_fetches_total",
       "Fetches, as the clients tell"},
      {"ready", &VerdictCounts::ready, kAdd, "farpage_node_reported_ready_pages_total",
       "Pages that were ready, as the clients tell"},
      {"ready_bytes", &VerdictCounts::ready_bytes, kAdd, "farpage_node_reported_ready_bytes_total",
       "Bytes of the pages that were ready, as the clients tell"},
      {"miss", &VerdictCounts::miss, kAdd,
       "farpage_node_reported_recompute_pages_total{reason=miss}", kReasonHelp},
      {"stale", &VerdictCounts::stale, kAdd,
       "farpage_node_reported_recompute_pages_total{reason=stale}", kReasonHelp},
      {"corrupt", &VerdictCounts::corrupt, kAdd,
       "farpage_node_reported_recompute_pages_total{reason=corrupt}", kReasonHelp},
      {"stalled", &VerdictCounts::stalled, kAdd,
       "farpage_node_reported_recompute_pages_total{reason=stalled}", kReasonHelp},
      {"unreachable", &VerdictCounts::unreachable, kAdd,
       "farpage_node_reported_recompute_pages_total{reason=unreachable}", kReasonHelp},
      {"slower", &VerdictCounts::slower, kAdd,
       "farpage_node_reported_recompute_pages_total{reason=slower}", kReasonHelp},
  });
  return kFigures;
}

std::span<const Figure<FleetStatus>> figures(const FleetStatus&) {
  static constexpr auto kFigures = std::to_array<Figure<FleetStatus>>({
      {"replicas", &FleetStatus::replicas, kLeast, "farpage_fleet_replicas",
       "Nodes that hold each key"},
      {"replicated", &FleetStatus::replicated, kAdd, "farpage_fleet_replicated_pages_total",
       "Pages put or removed here that all others of their set have taken over", "  replicated",
       "{replicated} pages, {applied} taken over"},
      {"applied", &FleetStatus::applied, kAdd, "farpage_fleet_applied_pages_total",
       "Pages taken over from their primaries"},
      {"filled", &FleetStatus::filled, kAdd, "farpage_fleet_filled_pages_total",
       "Pages that this node lacked and has brought", "  filled",
       "{filled} pages, {filled_bytes}, {to_fill} left"},
      {"filled_bytes", &FleetStatus::filled_bytes, kAdd, "farpage_fleet_filled_bytes_total",
       "Bytes of the pages brought"},
      {"to_fill", &FleetStatus::to_fill, kAdd, "farpage_fleet_pages_to_fill",
       "Pages that this node knows that it lacks"},
      {"repaired", &FleetStatus::repaired, kAdd, "farpage_fleet_repaired_pages_total",
       "Pages brought in the place of corrupt ones"},
      {"dropped", &FleetStatus::dropped, kAdd, "farpage_fleet_dropped_pages_total",
       "Pages reported and found corrupt", "  corrupt",
       "{dropped} pages dropped, {repaired} repaired"},
      {"puts_without_replica", &FleetStatus::puts_without_replica, kAdd,
       "farpage_fleet_puts_without_replica_total",
       "Pages that were not stored because a replica was not reached", "  without a replica",
       "{puts_without_replica} puts refused"},
  });
  return kFigures;
}

std::span<const Figure<PushCounts>> figures(const PushCounts&) {
  static constexpr auto kFigures = std::to_array<Figure<PushCounts>>({
      {"lanes", &PushCounts::lanes, kAdd, "farpage_node_push_lanes",
       "Push lanes of clients that are open"},
      {"pages", &PushCounts::pages, kAdd, "farpage_node_pushed_pages_total",
       "Pages written to clients", "pushes",
       "{pages} pages ({bytes}), {lanes} lanes{pages_rate}{bytes_rate}"},
      {"bytes", &PushCounts::bytes, kAdd, "farpage_node_pushed_bytes_total",
       "Bytes of the pages written to clients"},
      {"missed", &PushCounts::missed, kAdd, "farpage_node_push_missed_pages_total",
       "Pages to push that were not there", "  left out",
       "{missed} not there, {late} too late; {refused} refused"},
      {"late", &PushCounts::late, kAdd, "farpage_node_push_late_pages_total",
       "Pages that it was too late to push"},
      {"refused", &PushCounts::refused, kAdd, "farpage_node_push_refused_total",
       "Push lanes and pushes refused"},
  });
  return kFigures;
}

std::span<const Figure<ScrubCounts>> figures(const ScrubCounts&) {
  static constexpr auto kFigures = std::to_array<Figure<ScrubCounts>>({
      {"passes", &ScrubCounts::passes, kAdd, "farpage_node_scrub_passes_total",
       "Times that the whole pool was looked at", "scrubbed",
       "{passes} passes, {bytes}; {dropped} pages dropped, {entries} index entries mended"},
      {"bytes", &ScrubCounts::bytes, kAdd, "farpage_node_scrubbed_bytes_total",
       "Bytes of pages looked at unasked"},
      {"dropped", &ScrubCounts::dropped, kAdd, "farpage_node_scrub_dropped_pages_total",
       "Pages looked at unasked and found corrupt"},
      {"entries", &ScrubCounts::entries, kAdd, "farpage_node_scrub_mended_entries_total",
       "Entries of the index that were damaged where clients read them"},
  });
  return kFigures;
}

// The whole budget is the process's, and no sum of its tenants'.
std::span<const Figure<ClientBudgetStatus>> figures(const ClientBudgetStatus&) {
  static constexpr auto kFigures = std::to_array<Figure<ClientBudgetStatus>>({
      {"bytes", &ClientBudgetStatus::bytes, kFirst, "farpage_node_client_budget_bytes",
       "Memory that clients may make the node hold beside its pool"},
      {"granted_bytes", &ClientBudgetStatus::granted_bytes, kFirst,
       "farpage_node_client_granted_bytes",
       "Memory that clients make the node hold: staging above all"},
      {"refused", &ClientBudgetStatus::refused, kAdd, "farpage_node_client_grants_refused_total",
       "Grants to clients that the budget had no room for"},
  });
  return kFigures;
}

std::span<const Figure<ClientBudgetStatus>> tenant_budget_figures() {
  static constexpr auto kFigures = std::to_array<Figure<ClientBudgetStatus>>({
      {"bytes", &ClientBudgetStatus::bytes, kFirst, "farpage_tenant_client_budget_bytes",
       "Memory that the tenant's clients may make the node hold beside the quota"},
      {"granted_bytes", &ClientBudgetStatus::granted_bytes, kFirst,
       "farpage_tenant_client_granted_bytes",
       "Memory that the tenant's clients make the node hold"},
      {"refused", &ClientBudgetStatus::refused, kAdd, "farpage_tenant_client_grants_refused_total",
       "Grants to the tenant's clients that its budget had no room for"},
  });
  return kFigures;
}

std::span<const Figure<TenantStatus>> figures(const TenantStatus&) {
  static constexpr auto kFigures = std::to_array<Figure<TenantStatus>>({
      {"quota_bytes", &TenantStatus::quota_bytes, kAdd, "farpage_tenant_quota_bytes",
       "Memory that the tenant's pages may take"},
      {"held_bytes", &TenantStatus::held_bytes, kAdd, "farpage_tenant_held_bytes",
       "Memory of the slots that hold a page of the tenant"},
      {"clients", &TenantStatus::clients, kAdd, "farpage_tenant_clients",
       "Clients of the tenant that are connected"},
      {"puts", &TenantStatus::puts, kAdd, "farpage_tenant_puts_total", "Pages stored", "  puts",
       "{puts} ({put_bytes}), {puts_refused} refused{puts_rate}"},
      {"put_bytes", &TenantStatus::put_bytes, kAdd, "farpage_tenant_put_bytes_total",
       "Bytes of the pages stored"},
      {"puts_refused", &TenantStatus::puts_refused, kAdd, "farpage_tenant_puts_refused_total",
       "Pages that were not stored"},
      {"removes", &TenantStatus::removes, kAdd, "farpage_tenant_removes_total",
       "Pages removed by the tenant's clients", "  removes, evictions",
       "{removes}, {evictions}{evictions_rate}"},
      {"evictions", &TenantStatus::evictions, kAdd, "farpage_tenant_evictions_total",
       "Pages that made room for others of the same tenant"},
  });
  return kFigures;
}

std::span<const Figure<NameSpaceStatus>> figures(const NameSpaceStatus&) {
  static constexpr auto kFigures = std::to_array<Figure<NameSpaceStatus>>({
      {"pages", &NameSpaceStatus::pages, kAdd, "farpage_node_namespace_pages",
       "Pages of the namespace, of those with the most pages"},
      {"held_bytes", &NameSpaceStatus::held_bytes, kAdd, "farpage_node_namespace_held_bytes",
       "Memory of the slots that hold a page of the namespace"},
  });
  return kFigures;
}

std::span<const Figure<PathTraffic>> figures(const PathTraffic&) {
  static constexpr auto kFigures = std::to_array<Figure<PathTraffic>>({
      {"connections", &PathTraffic::connections, kAdd, "farpage_transport_connections",
       "Connections that are open"},
      {"reads", &PathTraffic::reads, kAdd, "farpage_transport_reads_total", "Reads by clients",
       "    read", "{reads}, {read_bytes}{reads_rate}{read_bytes_rate}"},
      {"read_bytes", &PathTraffic::read_bytes, kAdd, "farpage_transport_read_bytes_total",
       "Bytes read by clients"},
      {"writes", &PathTraffic::writes, kAdd, "farpage_transport_writes_total", "Writes by clients",
       "    written", "{writes}, {write_bytes}{writes_rate}{write_bytes_rate}"},
      {"write_bytes", &PathTraffic::write_bytes, kAdd, "farpage_transport_write_bytes_total",
       "Bytes written by clients"},
      {"refused", &PathTraffic::refused, kAdd, "farpage_transport_refused_total",
       "Operations and connections refused"},
  });
  return kFigures;
}

std::span<const Figure<PortTraffic>> figures(const PortTraffic&) {
  static constexpr auto kFigures = std::to_array<Figure<PortTraffic>>({
      {"link_bits_per_s", &PortTraffic::link_bits_per_s, kFirst,
       "farpage_port_link_bytes_per_second", "Rate of the link, as the device says"},
      {"connections", &PortTraffic::connections, kAdd, "farpage_port_connections",
       "Connections of clients that are open"},
      {"refused", &PortTraffic::refused, kAdd, "farpage_port_refused_total", "Connections refused"},
      {"immediates", &PortTraffic::immediates, kAdd, "farpage_port_immediates_total",
       "Immediates that have come, each behind a transfer"},
  });
  return kFigures;
}

// Every tenant reports the same traffic of the whole port.
std::span<const Figure<PortCounts>> figures(const PortCounts&) {
  static constexpr auto kFigures = std::to_array<Figure<PortCounts>>({
      {"sent_bytes", &PortCounts::sent_bytes, kFirst, "farpage_port_sent_bytes_total",
       "Bytes that the whole port has sent"},
      {"received_bytes", &PortCounts::received_bytes, kFirst, "farpage_port_received_bytes_total",
       "Bytes that the whole port has received"},
      {"sent_packets", &PortCounts::sent_packets, kFirst, "farpage_port_sent_packets_total",
       "Packets that the whole port has sent"},
      {"received_packets", &PortCounts::received_packets, kFirst,
       "farpage_port_received_packets_total", "Packets that the whole port has received"},
  });
  return kFigures;
}

FigureMetric metric_of(std::string_view metric) {
  const size_t at = metric.find('{');
  FigureMetric to = {.family = metric.substr(0, at)};
  if (at != metric.npos) {
    const size_t equals = metric.find('=');
    to.label = {metric.substr(at + 1, equals - at - 1),
                metric.substr(equals + 1, metric.size() - equals - 2)};
  }
  to.kind = to.family.ends_with("_total") ? MetricKind::kCounter : MetricKind::kGauge;
  return to;
}

FigureUnit unit_of(std::string_view name) {
  if (name.ends_with("bytes")) return FigureUnit::kBytes;
  if (name.ends_with("_ns")) return FigureUnit::kNs;
  if (name.ends_with("_bits_per_s")) return FigureUnit::kBitsPerS;
  return FigureUnit::kCount;
}

uint64_t add_up(FigureSum how, uint64_t sum, uint64_t one) {
  switch (how) {
    case kAdd:
      return sum + std::min(one, UINT64_MAX - sum);
    case kMost:
      return std::max(sum, one);
    case kLeast:
      return std::min(sum, one);
    case kFirst:
      break;
  }
  return sum;
}

}  // namespace farpage
