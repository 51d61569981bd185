#include "node/node_metrics.h"

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

}  // namespace

void describe(const StatusReply& status, MetricVisitor& visitor) {
  describe_pool(status, visitor);
  describe_counts(status, visitor);
  describe_reports(status.verdicts, visitor);
  describe_process(status, visitor);
  describe_traffic(status.traffic, visitor);
}

}  // namespace farpage
