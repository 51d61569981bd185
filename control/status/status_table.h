#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

#include "base/metrics.h"
#include "control/status/status.h"

namespace farpage {

// How the figures of a process's tenants make one of the process. Sums stop at the largest number.
enum class FigureSum : uint8_t { kAdd, kMost, kLeast, kFirst };
enum class FigureUnit : uint8_t { kCount, kBytes, kNs, kBitsPerS };

template <typename Record>
using FigureNumber =
    std::conditional_t<std::is_same_v<Record, PortCounts>, std::optional<uint64_t>, uint64_t>;

// One number of the status. A value without a name in some form is not shown in that form.
template <typename Record>
struct Figure {
  const char* name;  // as in farpage_control.proto, and in JSON. Its end says the unit
  FigureNumber<Record> Record::*member;
  FigureSum sum = FigureSum::kAdd;
  const char* metric = nullptr;  // "name" or "name{label=value}"; see metric_of
  const char* help = nullptr;
  const char* row = nullptr;   // of the text, whose {name} are figures of the same record, and
  const char* text = nullptr;  // {name_rate} is ", 12.0/s" where there was an earlier look
};

// The table. A new figure is a line of it, beside its member and its field in
// farpage_control.proto.
std::span<const Figure<StatusReply>> figures(const StatusReply&);
std::span<const Figure<VerdictCounts>> figures(const VerdictCounts&);
std::span<const Figure<FleetStatus>> figures(const FleetStatus&);
std::span<const Figure<PushCounts>> figures(const PushCounts&);
std::span<const Figure<ScrubCounts>> figures(const ScrubCounts&);
std::span<const Figure<ClientBudgetStatus>> figures(const ClientBudgetStatus&);
std::span<const Figure<TenantStatus>> figures(const TenantStatus&);
std::span<const Figure<NameSpaceStatus>> figures(const NameSpaceStatus&);
std::span<const Figure<PathTraffic>> figures(const PathTraffic&);
std::span<const Figure<PortTraffic>> figures(const PortTraffic&);
std::span<const Figure<PortCounts>> figures(const PortCounts&);
// Those of a budget, with the metrics that a tenant's has.
std::span<const Figure<ClientBudgetStatus>> tenant_budget_figures();

FigureUnit unit_of(std::string_view name);

struct FigureMetric {
  std::string_view family;
  MetricKind kind = MetricKind::kGauge;  // what ends in "_total" is a counter
  MetricLabel label = {};
};
// Figures of one family stand one after the other.
FigureMetric metric_of(std::string_view metric);

uint64_t add_up(FigureSum how, uint64_t sum, uint64_t one);

template <typename Record>
void add_up(Record& sum, const Record& one) {
  for (const Figure<Record>& figure : figures(sum)) {
    sum.*figure.member = add_up(figure.sum, sum.*figure.member, one.*figure.member);
  }
}

}  // namespace farpage
