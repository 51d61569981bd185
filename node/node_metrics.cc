#include "node/node_metrics.h"

#include <fmt/format.h>

#include <functional>
#include <optional>
#include <type_traits>

#include "control/status/status_table.h"

namespace farpage {
namespace {

// A link whose rate is unknown has none.
std::optional<double> in_base_unit(std::optional<uint64_t> number, FigureUnit unit) {
  if (!number || (unit == FigureUnit::kBitsPerS && *number == 0)) return std::nullopt;
  const auto value = static_cast<double>(*number);
  if (unit == FigureUnit::kNs) return value / 1e9;
  return unit == FigureUnit::kBitsPerS ? value / 8 : value;
}

template <typename Record>
struct Labelled {
  MetricLabel label;
  const Record* record;
};

// A family after the other, with the values of all records, also where there are none.
template <typename Record>
void describe(std::span<const Figure<Record>> table, const std::vector<Labelled<Record>>& records,
              MetricVisitor& visitor) {
  std::string_view family;
  for (const Figure<Record>& figure : table) {
    if (figure.metric == nullptr) continue;
    const FigureMetric metric = metric_of(figure.metric);
    if (metric.family != family) visitor.family(metric.family, figure.help, metric.kind);
    family = metric.family;
    for (const Labelled<Record>& one : records) {
      const auto value = in_base_unit(one.record->*figure.member, unit_of(figure.name));
      const MetricLabel& label = metric.label.name.empty() ? one.label : metric.label;
      if (!value) continue;
      if (label.name.empty()) {
        visitor.value({}, *value);
      } else {
        visitor.value({label}, *value);
      }
    }
  }
}

template <typename Record>
void describe_one(const Record& record, MetricVisitor& visitor) {
  describe(figures(record), {Labelled<Record>{{}, &record}}, visitor);
}

// Of each owner its `part`, under the owner's name.
template <typename Owner, typename Part = std::identity>
auto named(const std::vector<Owner>& owners, const char* label, std::string Owner::*name,
           Part part = {}) {
  using Record = std::remove_cvref_t<std::invoke_result_t<Part, const Owner&>>;
  std::vector<Labelled<Record>> records;
  for (const Owner& owner : owners) {
    records.push_back({{label, owner.*name}, &std::invoke(part, owner)});
  }
  return records;
}

// Where the node serves alone, these families have no values.
void describe_fleet(const FleetStatus& fleet, MetricVisitor& visitor) {
  visitor.family("farpage_fleet_member_reached", "1: this node reaches that member",
                 MetricKind::kGauge);
  for (const MemberStatus& member : fleet.others) {
    visitor.value({{"node", fmt::format("{:016x}", member.node)}}, member.reached ? 1 : 0);
  }
  std::vector<Labelled<FleetStatus>> fleets;
  if (fleet.node != 0) fleets.push_back({{}, &fleet});
  describe(figures(fleet), fleets, visitor);
}

}  // namespace

// Where the node does not see its clients' reads, or no device answers them, or it has no tenants,
// their families have no values.
void describe(const StatusReply& status, MetricVisitor& visitor) {
  describe_one(status, visitor);
  describe_one(status.budget, visitor);
  describe_one(status.pushes, visitor);
  describe_one(status.scrubs, visitor);
  describe_one(status.verdicts, visitor);
  describe(figures(PathTraffic()), named(status.traffic, "path", &PathTraffic::path), visitor);
  describe(figures(PortTraffic()), named(status.ports, "port", &PortTraffic::port), visitor);
  describe(figures(PortCounts()),
           named(status.ports, "port", &PortTraffic::port, &PortTraffic::counts), visitor);
  describe_fleet(status.fleet, visitor);
  describe(figures(NameSpaceStatus()),
           named(status.name_spaces, "namespace", &NameSpaceStatus::name_space), visitor);
  describe(figures(TenantStatus()), named(status.tenants, "tenant", &TenantStatus::name), visitor);
  describe(tenant_budget_figures(),
           named(status.tenants, "tenant", &TenantStatus::name, &TenantStatus::budget), visitor);
}

}  // namespace farpage
