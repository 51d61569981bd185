#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cmath>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "chaos/processes/campaign.h"
#include "chaos/report_parts.h"
#include "integrity/recovery.h"
#include "report/json.h"

namespace farpage::processes {
namespace {

using chaos::counts_json;
using chaos::finding_rows;
using chaos::indented;
using chaos::kind_rows;
using chaos::sum_of;

constexpr size_t kMostFindings = 20;  // that are told
constexpr std::array<const char*, 4> kDestinations = {"host", "gpu", "gpu-unchecked", "gpu-blocks"};

// Sorted; empty: 0.
double quantile(std::vector<double> values, double part) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  return values[static_cast<size_t>(std::lround(part * static_cast<double>(values.size() - 1)))];
}

boost::json::object spread(const std::vector<double>& seconds) {
  return {{"samples", seconds.size()},
          {"median_s", quantile(seconds, 0.5)},
          {"max_s", quantile(seconds, 1)}};
}

double most_late_ms(const CampaignResult& result) {
  if (result.lateness_ns.empty()) return 0;
  return static_cast<double>(std::ranges::max(result.lateness_ns)) / kMillisecond;
}

// All but one, of which nobody outside can know.
constexpr auto kKnowable = std::span(kFindingNames).first<kFindingKinds - 1>();
static_assert(kFindingKinds - 1 == static_cast<size_t>(FindingKind::kEndedViews));

// Those that are told.
std::vector<std::string> sentences(const CampaignResult& result) {
  std::vector<std::string> sentences;
  for (const Finding& finding : result.findings) {
    if (sentences.size() < kMostFindings) sentences.push_back(describe(finding));
  }
  return sentences;
}

}  // namespace

boost::json::object campaign_json(const CampaignResult& result, const std::string& version) {
  boost::json::object reasons;
  for (size_t reason = 1; reason < result.recompute.size(); ++reason) {
    reasons[reason_name(static_cast<Reason>(reason))] = result.recompute[reason];
  }
  boost::json::object json{
      {"version", version},
      {"hardware", hardware_json()},
      {"backend", result.options.backend},
      {"destination", kDestinations[static_cast<size_t>(result.options.destination)]},
      {"seed", result.options.plan.seed},
      {"clients", result.options.clients},
      {"nodes", result.options.plan.nodes},
      {"replicas", result.options.replicas},
      {"lease_ms", result.lease_ms},
      {"seconds", result.seconds},
      {"interrupted", result.interrupted},
      {"rounds", result.rounds},
      {"disturbances", sum_of(result.injected)},
      {"injected", counts_json(kKindNames, result.injected)},
      {"felt", counts_json(kKindNames, result.felt)},
      {"pages_ready", result.ready},
      {"pages_recompute_by_reason", std::move(reasons)},
      {"puts", result.puts},
      {"puts_acknowledged", result.puts_acknowledged},
      {"removes", result.removes},
      {"removes_acknowledged", result.removes_acknowledged},
      {"pages_kept", result.pages_kept},
      {"pages_gone", result.pages_gone},
      {"nodes_started_again", result.starts_again},
      {"killed_to_all_served", spread(result.killed_s)},
      {"parted_to_all_served", spread(result.parted_s)},
      {"settle", spread(result.settle_s)},
      {"after_deadline", result.lateness_ns.size()},
      {"after_deadline_max_ms", most_late_ms(result)},
      {"without_view_max_ms", static_cast<double>(result.without_view_ns) / kMillisecond},
      {"watchdog_delay_max_ms", static_cast<double>(result.delay_most_ns) / kMillisecond},
      {"watchdog_delay_p99_ms", result.delay_p99_ns / kMillisecond},
  };
  if (result.outage_s > 0) {
    json["outage_s"] = result.outage_s;
    json["full_service_s"] = nullptr;
    if (result.full_service_s) json["full_service_s"] = *result.full_service_s;
  }
  const boost::json::object found = counts_json(kKnowable, count_by_kind(result.findings));
  json.insert(found.begin(), found.end());
  if (!result.holds()) {
    const std::vector<std::string> findings = sentences(result);
    json["findings"] = boost::json::array(findings.begin(), findings.end());
    json["history"] = boost::json::array(result.history.begin(), result.history.end());
  }
  return json;
}

std::string campaign_table(const CampaignResult& result) {
  std::string text = fmt::format(
      "seed {}, {}, into {}: {} disturbances in {} rounds and {:.1f} s: {} clients, {} nodes, {} "
      "replicas, "
      "lease {} ms\n"
      "{} pages ready, {} to recompute; {} of {} puts acknowledged; {} pages had to be there after "
      "a round, {} others were put anew; {} nodes ended by themselves and were started again\n",
      result.options.plan.seed, result.options.backend,
      result.options.destination == Destination::kHost ? "the host's memory" : "a GPU's memory",
      sum_of(result.injected), result.rounds, result.seconds, result.options.clients,
      result.options.plan.nodes, result.options.replicas, result.lease_ms, result.ready,
      std::accumulate(result.recompute.begin(), result.recompute.end(), uint64_t{0}),
      result.puts_acknowledged, result.puts, result.pages_kept, result.pages_gone,
      result.starts_again);
  const auto row = [&text](const char* what, const std::vector<double>& seconds) {
    if (seconds.empty()) return;
    text += fmt::format("{}: {:.3f} s in the median, {:.3f} s at most, of {}\n", what,
                        quantile(seconds, 0.5), quantile(seconds, 1), seconds.size());
  };
  row("from a node's kill until every key is served", result.killed_s);
  row("from a node's parting until every key is served", result.parted_s);
  row("from a round's last disturbance until all is well", result.settle_s);
  if (result.full_service_s) {
    text += fmt::format("etcd gone for {:.1f} s: full service {:.3f} s after its return\n",
                        result.outage_s, *result.full_service_s);
  }
  text += fmt::format(
      "{} ended after their deadline, by {:.3f} ms at most; the watchdog was late by {:.3f} ms at "
      "most; a client had no view for {:.3f} ms at most\n\n",
      result.lateness_ns.size(), most_late_ms(result),
      static_cast<double>(result.delay_most_ns) / kMillisecond,
      static_cast<double>(result.without_view_ns) / kMillisecond);
  text += kind_rows({kKindNames, result.injected, result.felt, "felt", 8}) + '\n';
  text += finding_rows(kKnowable, count_by_kind(result.findings));
  if (result.holds()) return text;
  text += fmt::format("\nseed {}:\n", result.options.plan.seed) + indented(sentences(result));
  return text + "after:\n" + indented(result.history);
}

}  // namespace farpage::processes
