#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cmath>
#include <numeric>
#include <string>

#include "base/clock.h"
#include "chaos/processes/campaign.h"
#include "integrity/recovery.h"
#include "report/json.h"

namespace farpage::processes {
namespace {

constexpr size_t kMostFindings = 20;  // that are told

boost::json::object by_kind(const KindCounts& counts) {
  boost::json::object json;
  for (size_t kind = 0; kind < kKinds; ++kind) json[kKindNames[kind]] = counts[kind];
  return json;
}

uint64_t sum(const KindCounts& counts) {
  return std::accumulate(counts.begin(), counts.end(), uint64_t{0});
}

std::array<uint64_t, kFindingKinds> counts_of(const std::vector<Finding>& findings) {
  std::array<uint64_t, kFindingKinds> counts{};
  for (const Finding& finding : findings) ++counts[static_cast<size_t>(finding.kind)];
  return counts;
}

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

std::string sentence(const Finding& finding) {
  return fmt::format("{}: {}", kFindingNames[static_cast<size_t>(finding.kind)], finding.sentence);
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
      {"seed", result.options.plan.seed},
      {"clients", result.options.clients},
      {"nodes", result.options.plan.nodes},
      {"replicas", result.options.replicas},
      {"lease_ms", result.lease_ms},
      {"seconds", result.seconds},
      {"interrupted", result.interrupted},
      {"rounds", result.rounds},
      {"disturbances", sum(result.injected)},
      {"injected", by_kind(result.injected)},
      {"felt", by_kind(result.felt)},
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
      {"watchdog_delay_max_ms", static_cast<double>(result.delay_most_ns) / kMillisecond},
      {"watchdog_delay_p99_ms", result.delay_p99_ns / kMillisecond},
  };
  if (result.outage_s > 0) {
    json["outage_s"] = result.outage_s;
    json["full_service_s"] = nullptr;
    if (result.full_service_s) json["full_service_s"] = *result.full_service_s;
  }
  const auto counts = counts_of(result.findings);
  for (size_t kind = 0; kind < kFindingKinds; ++kind) json[kFindingNames[kind]] = counts[kind];
  json.erase(kFindingNames[static_cast<size_t>(FindingKind::kEndedViews)]);  // unknown
  if (!result.holds()) {
    boost::json::array findings;
    for (const Finding& finding : result.findings) {
      if (findings.size() < kMostFindings) findings.emplace_back(sentence(finding));
    }
    boost::json::array history;
    for (const std::string& each : result.history) history.emplace_back(each);
    json["findings"] = std::move(findings);
    json["history"] = std::move(history);
  }
  return json;
}

std::string campaign_table(const CampaignResult& result) {
  std::string text = fmt::format(
      "seed {}, {}: {} disturbances in {} rounds and {:.1f} s: {} clients, {} nodes, {} replicas, "
      "lease {} ms\n"
      "{} pages ready, {} to recompute; {} of {} puts acknowledged; {} pages had to be there after "
      "a round, {} others were put anew; {} nodes ended by themselves and were started again\n",
      result.options.plan.seed, result.options.backend, sum(result.injected), result.rounds,
      result.seconds, result.options.clients, result.options.plan.nodes, result.options.replicas,
      result.lease_ms, result.ready,
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
      "most\n\n{:<16} {:>8} {:>8}\n",
      result.lateness_ns.size(), most_late_ms(result),
      static_cast<double>(result.delay_most_ns) / kMillisecond, "kind", "injected", "felt");
  for (size_t kind = 0; kind < kKinds; ++kind) {
    text += fmt::format("{:<16} {:>8} {:>8}\n", kKindNames[kind], result.injected[kind],
                        result.felt[kind]);
  }
  text += '\n';
  const auto counts = counts_of(result.findings);
  for (size_t kind = 0; kind < kFindingKinds; ++kind) {
    if (kind == static_cast<size_t>(FindingKind::kEndedViews)) continue;
    text += fmt::format("{:<22} {:>6}\n", kFindingNames[kind], counts[kind]);
  }
  if (result.holds()) return text;
  text += fmt::format("\nseed {}:\n", result.options.plan.seed);
  for (size_t finding = 0; finding < std::min(result.findings.size(), kMostFindings); ++finding) {
    text += "  " + sentence(result.findings[finding]) + '\n';
  }
  text += "after:\n";
  for (const std::string& each : result.history) text += "  " + each + '\n';
  return text;
}

}  // namespace farpage::processes
