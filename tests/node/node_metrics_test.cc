#include "node/node_metrics.h"

#include <gtest/gtest.h>

#include "tests/support/recorded_metrics.h"

namespace farpage {
namespace {

StatusReply numbered_status() {
  StatusReply status = {"tcp", "a path", 1, 2, 3'000'000'000, 4'500'000'000, 5};
  status.slots_live = 6;
  status.slots_free = 7;
  status.slots_cooling = 8;
  status.clients = 9;
  status.puts = 10;
  status.put_bytes = 11;
  status.puts_refused = 12;
  status.puts_in_place = 90;
  status.sources = 91;
  status.removes = 13;
  status.evictions = 14;
  status.renewals = 15;
  status.verdicts = {16, 17, 18, 19, 20, 21, 22, 23, 62};
  status.sees_traffic = true;
  status.traffic = {{"a", 24, 25, 26, 27, 28, 29}, {"b", 30, 31, 32, 33, 34, 35}};
  status.ports = {{"c", 8 * 36, 37, 38, 39, {40, 41, 42, 43}}, {"d", 0, 44, 45, 46, {}}};
  status.fleet = {99, 47, {{0xAB, true}, {0xCD, false}}, 48, 49, 50, 51, 52, 53, 54, 55};
  status.pushes = {56, 57, 58, 59, 60, 61};
  status.scrubs = {62, 63, 64, 65};
  status.budget = {82, 83, 84};
  status.tenants = {{"x", 66, 67, 68, 69, 70, 71, 72, 73, {85, 86, 87}},
                    {"y", 74, 75, 76, 77, 78, 79, 80, 81, {88, 89, 90}}};
  return status;
}

TEST(NodeMetrics, EveryNumberHasItsName) {
  RecordedMetrics metrics;
  describe(numbered_status(), metrics);
  const std::map<std::string, double> expected = {
      {"farpage_node_epoch", 1},
      {"farpage_node_client_budget_bytes", 82},
      {"farpage_node_client_granted_bytes", 83},
      {"farpage_node_client_grants_refused_total", 84},
      {"farpage_tenant_client_budget_bytes{tenant=x}", 85},
      {"farpage_tenant_client_granted_bytes{tenant=x}", 86},
      {"farpage_tenant_client_grants_refused_total{tenant=x}", 87},
      {"farpage_tenant_client_budget_bytes{tenant=y}", 88},
      {"farpage_tenant_client_granted_bytes{tenant=y}", 89},
      {"farpage_tenant_client_grants_refused_total{tenant=y}", 90},
      {"farpage_tenant_quota_bytes{tenant=x}", 66},
      {"farpage_tenant_held_bytes{tenant=x}", 67},
      {"farpage_tenant_clients{tenant=x}", 68},
      {"farpage_tenant_puts_total{tenant=x}", 69},
      {"farpage_tenant_put_bytes_total{tenant=x}", 70},
      {"farpage_tenant_puts_refused_total{tenant=x}", 71},
      {"farpage_tenant_removes_total{tenant=x}", 72},
      {"farpage_tenant_evictions_total{tenant=x}", 73},
      {"farpage_tenant_quota_bytes{tenant=y}", 74},
      {"farpage_tenant_held_bytes{tenant=y}", 75},
      {"farpage_tenant_clients{tenant=y}", 76},
      {"farpage_tenant_puts_total{tenant=y}", 77},
      {"farpage_tenant_put_bytes_total{tenant=y}", 78},
      {"farpage_tenant_puts_refused_total{tenant=y}", 79},
      {"farpage_tenant_removes_total{tenant=y}", 80},
      {"farpage_tenant_evictions_total{tenant=y}", 81},
      {"farpage_node_uptime_seconds", 3},
      {"farpage_node_cpu_seconds_total", 4.5},
      {"farpage_node_slot_bytes", 5},
      {"farpage_node_slots{state=live}", 6},
      {"farpage_node_slots{state=free}", 7},
      {"farpage_node_slots{state=cooling}", 8},
      {"farpage_node_clients", 9},
      {"farpage_node_puts_total", 10},
      {"farpage_node_put_bytes_total", 11},
      {"farpage_node_puts_refused_total", 12},
      {"farpage_node_puts_in_place_total", 90},
      {"farpage_node_sources", 91},
      {"farpage_node_removes_total", 13},
      {"farpage_node_evictions_total", 14},
      {"farpage_node_renewals_total", 15},
      {"farpage_node_reported_fetches_total", 16},
      {"farpage_node_reported_ready_pages_total", 17},
      {"farpage_node_reported_ready_bytes_total", 18},
      {"farpage_node_reported_recompute_pages_total{reason=miss}", 19},
      {"farpage_node_reported_recompute_pages_total{reason=stale}", 20},
      {"farpage_node_reported_recompute_pages_total{reason=corrupt}", 21},
      {"farpage_node_reported_recompute_pages_total{reason=stalled}", 22},
      {"farpage_node_reported_recompute_pages_total{reason=unreachable}", 23},
      {"farpage_node_reported_recompute_pages_total{reason=slower}", 62},
      {"farpage_transport_connections{path=a}", 24},
      {"farpage_transport_reads_total{path=a}", 25},
      {"farpage_transport_read_bytes_total{path=a}", 26},
      {"farpage_transport_writes_total{path=a}", 27},
      {"farpage_transport_write_bytes_total{path=a}", 28},
      {"farpage_transport_refused_total{path=a}", 29},
      {"farpage_transport_connections{path=b}", 30},
      {"farpage_transport_reads_total{path=b}", 31},
      {"farpage_transport_read_bytes_total{path=b}", 32},
      {"farpage_transport_writes_total{path=b}", 33},
      {"farpage_transport_write_bytes_total{path=b}", 34},
      {"farpage_transport_refused_total{path=b}", 35},
      {"farpage_port_link_bytes_per_second{port=c}", 36},
      {"farpage_port_connections{port=c}", 37},
      {"farpage_port_refused_total{port=c}", 38},
      {"farpage_port_immediates_total{port=c}", 39},
      {"farpage_port_sent_bytes_total{port=c}", 40},
      {"farpage_port_received_bytes_total{port=c}", 41},
      {"farpage_port_sent_packets_total{port=c}", 42},
      {"farpage_port_received_packets_total{port=c}", 43},
      {"farpage_port_connections{port=d}", 44},
      {"farpage_port_refused_total{port=d}", 45},
      {"farpage_port_immediates_total{port=d}", 46},
      {"farpage_fleet_replicas", 47},
      {"farpage_fleet_replicated_pages_total", 48},
      {"farpage_fleet_applied_pages_total", 49},
      {"farpage_fleet_filled_pages_total", 50},
      {"farpage_fleet_filled_bytes_total", 51},
      {"farpage_fleet_pages_to_fill", 52},
      {"farpage_fleet_repaired_pages_total", 53},
      {"farpage_fleet_dropped_pages_total", 54},
      {"farpage_fleet_puts_without_replica_total", 55},
      {"farpage_node_push_lanes", 56},
      {"farpage_node_pushed_pages_total", 57},
      {"farpage_node_pushed_bytes_total", 58},
      {"farpage_node_push_missed_pages_total", 59},
      {"farpage_node_push_late_pages_total", 60},
      {"farpage_node_push_refused_total", 61},
      {"farpage_node_scrub_passes_total", 62},
      {"farpage_node_scrubbed_bytes_total", 63},
      {"farpage_node_scrub_dropped_pages_total", 64},
      {"farpage_node_scrub_mended_entries_total", 65},
      {"farpage_fleet_member_reached{node=00000000000000ab}", 1},
      {"farpage_fleet_member_reached{node=00000000000000cd}", 0},
  };
  EXPECT_EQ(metrics.values, expected);
  EXPECT_TRUE(metrics.without_help.empty());
}

TEST(NodeMetrics, WhatIsNotSeenHasAFamilyAndNoValue) {
  RecordedMetrics metrics;
  describe(StatusReply(), metrics);
  EXPECT_TRUE(metrics.kinds.contains("farpage_transport_read_bytes_total"));
  EXPECT_TRUE(metrics.kinds.contains("farpage_port_sent_bytes_total"));
  EXPECT_TRUE(metrics.kinds.contains("farpage_fleet_replicas"));
  for (const auto& [name, value] : metrics.values) {
    EXPECT_EQ(name.find("farpage_transport"), std::string::npos) << name;
    EXPECT_EQ(name.find("farpage_port"), std::string::npos) << name;
    EXPECT_EQ(name.find("farpage_fleet"), std::string::npos) << name;
  }
}

TEST(NodeMetrics, NamesSayWhatIsACounter) {
  RecordedMetrics metrics;
  describe(numbered_status(), metrics);
  for (const auto& [name, kind] : metrics.kinds) {
    EXPECT_EQ(name.ends_with("_total"), kind == MetricKind::kCounter) << name;
  }
}

}  // namespace
}  // namespace farpage
