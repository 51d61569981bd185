#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include "cli/farpage/status_report.h"
#include "cli/version.h"
#include "report/json.h"

namespace farpage {
namespace {

boost::json::object scrubs_json(const ScrubCounts& scrubs) {
  return {{"passes", scrubs.passes},
          {"bytes", scrubs.bytes},
          {"dropped", scrubs.dropped},
          {"entries", scrubs.entries}};
}

boost::json::object budget_json(const ClientBudgetStatus& budget) {
  return {{"bytes", budget.bytes},
          {"granted_bytes", budget.granted_bytes},
          {"refused", budget.refused}};
}

boost::json::object pushes_json(const PushCounts& pushes) {
  return {{"lanes", pushes.lanes},   {"pages", pushes.pages}, {"bytes", pushes.bytes},
          {"missed", pushes.missed}, {"late", pushes.late},   {"refused", pushes.refused}};
}

boost::json::object verdicts_json(const VerdictCounts& verdicts) {
  return {{"fetches", verdicts.fetches},
          {"ready", verdicts.ready},
          {"ready_bytes", verdicts.ready_bytes},
          {"recompute_by_reason",
           {{"miss", verdicts.miss},
            {"stale", verdicts.stale},
            {"corrupt", verdicts.corrupt},
            {"stalled", verdicts.stalled},
            {"unreachable", verdicts.unreachable},
            {"slower", verdicts.slower}}}};
}

// Null where the node does not see what its clients read.
boost::json::value traffic_json(const StatusReply& status) {
  if (!status.sees_traffic) return nullptr;
  boost::json::array paths;
  for (const PathTraffic& path : status.traffic) {
    paths.push_back({{"path", path.path},
                     {"connections", path.connections},
                     {"reads", path.reads},
                     {"read_bytes", path.read_bytes},
                     {"writes", path.writes},
                     {"write_bytes", path.write_bytes},
                     {"refused", path.refused}});
  }
  return paths;
}

boost::json::value count_json(std::optional<uint64_t> count) {
  return count ? boost::json::value(*count) : boost::json::value(nullptr);
}

// Null: the device does not say.
boost::json::array ports_json(const StatusReply& status) {
  boost::json::array ports;
  for (const PortTraffic& port : status.ports) {
    const uint64_t link = port.link_bits_per_s;
    ports.push_back({{"port", port.port},
                     {"link_bits_per_s", count_json(link > 0 ? std::optional(link) : std::nullopt)},
                     {"connections", port.connections},
                     {"refused", port.refused},
                     {"immediates", port.immediates},
                     {"sent_bytes", count_json(port.counts.sent_bytes)},
                     {"received_bytes", count_json(port.counts.received_bytes)},
                     {"sent_packets", count_json(port.counts.sent_packets)},
                     {"received_packets", count_json(port.counts.received_packets)}});
  }
  return ports;
}

// The same ports, and what each has moved in a second since the earlier look.
boost::json::array port_rates_json(const StatusReport& report) {
  boost::json::array ports;
  for (const PortTraffic& port : report.now.ports) {
    const auto& all = report.before->ports;
    const auto was = std::ranges::find(all, port.port, &PortTraffic::port);
    if (was == all.end()) continue;
    boost::json::object rates = {{"port", port.port}};
    const auto rate = [&](const char* name, std::optional<uint64_t> PortCounts::*count) {
      const auto before = was->counts.*count;
      const auto now = port.counts.*count;
      rates[name] = before && now ? boost::json::value(report.per_second(*before, *now))
                                  : boost::json::value(nullptr);
    };
    rate("sent_bytes", &PortCounts::sent_bytes);
    rate("received_bytes", &PortCounts::received_bytes);
    rate("sent_packets", &PortCounts::sent_packets);
    rate("received_packets", &PortCounts::received_packets);
    ports.push_back(std::move(rates));
  }
  return ports;
}

// Null: the node serves alone.
boost::json::value fleet_json(const FleetStatus& fleet) {
  if (fleet.node == 0) return nullptr;
  boost::json::array others;
  for (const MemberStatus& member : fleet.others) {
    others.push_back({{"node", fmt::format("{:016x}", member.node)}, {"reached", member.reached}});
  }
  return {{"node", fmt::format("{:016x}", fleet.node)},
          {"replicas", fleet.replicas},
          {"others", std::move(others)},
          {"replicated", fleet.replicated},
          {"applied", fleet.applied},
          {"filled", fleet.filled},
          {"filled_bytes", fleet.filled_bytes},
          {"to_fill", fleet.to_fill},
          {"repaired", fleet.repaired},
          {"dropped", fleet.dropped},
          {"puts_without_replica", fleet.puts_without_replica}};
}

// Null: the node has no tenants.
boost::json::value tenants_json(const StatusReply& status) {
  if (status.tenants.empty()) return nullptr;
  boost::json::array tenants;
  for (const TenantStatus& tenant : status.tenants) {
    tenants.push_back({{"name", tenant.name},
                       {"quota_bytes", tenant.quota_bytes},
                       {"held_bytes", tenant.held_bytes},
                       {"clients", tenant.clients},
                       {"puts", tenant.puts},
                       {"put_bytes", tenant.put_bytes},
                       {"puts_refused", tenant.puts_refused},
                       {"removes", tenant.removes},
                       {"evictions", tenant.evictions},
                       {"client_budget", budget_json(tenant.budget)}});
  }
  return tenants;
}

boost::json::object rates_json(const StatusReport& report) {
  const StatusReply& now = report.now;
  const StatusReply& before = *report.before;
  return {{"seconds", report.seconds()},
          {"puts", report.per_second(before.puts, now.puts)},
          {"put_bytes", report.per_second(before.put_bytes, now.put_bytes)},
          {"evictions", report.per_second(before.evictions, now.evictions)},
          {"removes", report.per_second(before.removes, now.removes)},
          {"pushed", report.per_second(before.pushes.pages, now.pushes.pages)},
          {"pushed_bytes", report.per_second(before.pushes.bytes, now.pushes.bytes)},
          {"fetches", report.per_second(before.verdicts.fetches, now.verdicts.fetches)},
          {"ready", report.per_second(before.verdicts.ready, now.verdicts.ready)},
          {"ready_bytes", report.per_second(before.verdicts.ready_bytes, now.verdicts.ready_bytes)},
          {"ports", port_rates_json(report)}};
}

}  // namespace

boost::json::object status_json(const StatusReport& report) {
  const StatusReply& status = report.now;
  boost::json::object json = {
      {"version", version()},
      {"backend", status.backend},
      {"path", status.path},
      {"configuration", {{"page_bytes", status.page_bytes}, {"slots", status.slots}}},
      {"hardware", hardware_json()},
      {"epoch", status.epoch},
      {"incarnation", fmt::format("{:016x}", status.incarnation)},
      {"uptime_s", static_cast<double>(status.uptime_ns) * 1e-9},
      {"cpu_s", static_cast<double>(status.cpu_ns) * 1e-9},
      {"page_bytes", status.page_bytes},
      {"slots", status.slots},
      {"slots_live", status.slots_live},
      {"slots_free", status.slots_free},
      {"slots_cooling", status.slots_cooling},
      {"clients", status.clients},
      {"puts", status.puts},
      {"put_bytes", status.put_bytes},
      {"puts_refused", status.puts_refused},
      {"removes", status.removes},
      {"evictions", status.evictions},
      {"renewals", status.renewals},
      {"client_budget", budget_json(status.budget)},
      {"pushes", pushes_json(status.pushes)},
      {"scrubs", scrubs_json(status.scrubs)},
      {"verdicts", verdicts_json(status.verdicts)},
      {"traffic", traffic_json(status)},
      {"ports", ports_json(status)},
      {"fleet", fleet_json(status.fleet)},
      {"tenants", tenants_json(status)}};
  if (report.seconds() > 0) json["per_second"] = rates_json(report);
  return json;
}

}  // namespace farpage
