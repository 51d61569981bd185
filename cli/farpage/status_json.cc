#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include "cli/farpage/status_report.h"
#include "cli/version.h"
#include "control/status/status_table.h"
#include "integrity/facts.h"
#include "report/json.h"

namespace farpage {
namespace {

// Null: the device does not say.
template <typename Record>
void add(boost::json::object& to, const Figure<Record>& figure, const Record& from) {
  const std::optional<uint64_t> number = from.*figure.member;
  const FigureUnit unit = unit_of(figure.name);
  if (!number || (unit == FigureUnit::kBitsPerS && *number == 0)) {
    to[figure.name] = nullptr;
  } else if (unit == FigureUnit::kNs) {
    std::string in_seconds = figure.name;
    in_seconds.replace(in_seconds.size() - 2, 2, "s");
    to[in_seconds] = static_cast<double>(*number) * 1e-9;
  } else {
    to[figure.name] = *number;
  }
}

template <typename Record>
boost::json::object figures_json(const Record& from, boost::json::object begun = {}) {
  for (const Figure<Record>& figure : figures(from)) add(begun, figure, from);
  return begun;
}

boost::json::object verdicts_json(const VerdictCounts& verdicts) {
  boost::json::object json, reasons;
  for (const Figure<VerdictCounts>& figure : figures(verdicts)) {
    const bool is_reason = !metric_of(figure.metric).label.name.empty();
    add(is_reason ? reasons : json, figure, verdicts);
  }
  json["recompute_by_reason"] = std::move(reasons);
  return json;
}

// Null where the node does not see what its clients read.
boost::json::value traffic_json(const StatusReply& status) {
  if (!status.sees_traffic) return nullptr;
  boost::json::array paths;
  for (const PathTraffic& path : status.traffic) {
    paths.push_back(figures_json(path, {{"path", path.path}}));
  }
  return paths;
}

boost::json::array ports_json(const StatusReply& status) {
  boost::json::array ports;
  for (const PortTraffic& port : status.ports) {
    ports.push_back(figures_json(port.counts, figures_json(port, {{"port", port.port}})));
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
    for (const Figure<PortCounts>& count : figures(port.counts)) {
      const auto before = was->counts.*count.member;
      const auto now = port.counts.*count.member;
      rates[count.name] = before && now ? boost::json::value(report.per_second(*before, *now))
                                        : boost::json::value(nullptr);
    }
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
  return figures_json(
      fleet, {{"node", fmt::format("{:016x}", fleet.node)}, {"others", std::move(others)}});
}

// Null: the node has no tenants.
boost::json::value tenants_json(const StatusReply& status) {
  if (status.tenants.empty()) return nullptr;
  boost::json::array tenants;
  for (const TenantStatus& tenant : status.tenants) {
    boost::json::object json = figures_json(tenant, {{"name", tenant.name}});
    json["client_budget"] = figures_json(tenant.budget);
    tenants.push_back(std::move(json));
  }
  return tenants;
}

boost::json::array name_spaces_json(const StatusReply& status) {
  boost::json::array all;
  for (const NameSpaceStatus& one : status.name_spaces) {
    boost::json::object json = figures_json(one, {{"namespace", one.name_space}});
    boost::json::object named;
    for (const Fact& fact : parse_facts(one.facts).value_or(std::vector<Fact>())) {
      named[fact.name] = fact.value;
    }
    json["facts"] = std::move(named);
    all.push_back(std::move(json));
  }
  return all;
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
  boost::json::object json = figures_json(
      status, {{"version", version()},
               {"backend", status.backend},
               {"path", status.path},
               {"configuration", {{"page_bytes", status.page_bytes}, {"slots", status.slots}}},
               {"hardware", hardware_json()},
               {"incarnation", fmt::format("{:016x}", status.incarnation)}});
  json["client_budget"] = figures_json(status.budget);
  json["pushes"] = figures_json(status.pushes);
  json["scrubs"] = figures_json(status.scrubs);
  json["verdicts"] = verdicts_json(status.verdicts);
  json["traffic"] = traffic_json(status);
  json["ports"] = ports_json(status);
  json["fleet"] = fleet_json(status.fleet);
  json["tenants"] = tenants_json(status);
  json["namespaces"] = name_spaces_json(status);
  if (report.seconds() > 0) json["per_second"] = rates_json(report);
  return json;
}

}  // namespace farpage
