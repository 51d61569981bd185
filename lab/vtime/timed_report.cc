#include "lab/vtime/timed_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <functional>
#include <string_view>

#include "base/clock.h"
#include "lab/paging/report_parts.h"
#include "report/html_page.h"
#include "report/json.h"

namespace farpage::vtime {
namespace {

const TimedRun* find(const TimedRun& beside, std::string_view prefetcher,
                     std::span<const TimedRun> runs) {
  const auto found = std::ranges::find_if(runs, [&](const TimedRun& run) {
    return run.policy == beside.policy && run.budget_pages == beside.budget_pages &&
           run.placement == beside.placement && run.prefetcher == prefetcher &&
           run.is_live == beside.is_live;
  });
  return found == runs.end() ? nullptr : &*found;
}

std::string_view clock_of(const TimedRun& run) {
  return run.is_live ? "live" : "virtual";
}

double seconds(uint64_t ns) {
  return static_cast<double>(ns) / kSecond;
}

// The figures of each run, by name, as a number or nothing.
struct Column {
  std::string_view name;     // in CSV and JSON
  std::string_view heading;  // for a person; empty: it is not shown to one
  std::string (*text)(double);
  std::function<std::optional<double>(const TimedRun&, const Beside&)> value;
};

std::string whole(double value) {
  return fmt::format("{:.0f}", value);
}
std::string share(double value) {
  return fmt::format("{:.4f}", value);
}
std::string rough(double value) {
  return fmt::format("{:.4g}", value);
}

template <typename Get>
Column of_result(std::string_view name, std::string_view heading, std::string (*text)(double),
                 Get get) {
  return {name, heading, text, [get](const TimedRun& run, const Beside&) -> std::optional<double> {
            return static_cast<double>(get(run.result));
          }};
}
Column of_beside(std::string_view name, std::string_view heading, std::string (*text)(double),
                 std::optional<double> Beside::*member) {
  return {name, heading, text,
          [member](const TimedRun&, const Beside& beside) { return beside.*member; }};
}

template <typename Get>
Column of_foresight(std::string_view name, std::string (*text)(double), Get get) {
  return {name, "", text, [get](const TimedRun& run, const Beside&) -> std::optional<double> {
            if (!run.result.foresight) return std::nullopt;
            return static_cast<double>(get(*run.result.foresight));
          }};
}

Column of_account(std::string_view name, uint64_t prefetch::PrefetchAccount::*member) {
  return of_result(name, "", whole, [member](const TimedResult& r) { return r.prefetch.*member; });
}

const std::vector<Column>& columns() {
  using R = TimedResult;
  using Account = prefetch::PrefetchAccount;
  using Foresight = prefetch::ForesightScore;
  static const std::vector<Column> all = {
      of_result("hit_rate", "hit rate", share, [](const R& r) { return r.paging.hit_rate(); }),
      of_result("stall_s", "stall s", rough, [](const R& r) { return seconds(r.stall_ns); }),
      of_beside("stall_cut", "cut", share, &Beside::stall_cut),
      of_beside("normalised_stall", "of oracle's", share, &Beside::normalised_stall),
      of_result("stall_p50_ms", "", rough,
                [](const R& r) { return r.stall_p50_ns / kMillisecond; }),
      of_result("stall_p99_ms", "p99 ms", rough,
                [](const R& r) { return r.stall_p99_ns / kMillisecond; }),
      of_result("steps_per_s", "steps/s", rough, [](const R& r) { return r.steps_per_s(); }),
      of_beside("speedup", "", rough, &Beside::speedup),
      of_result("accuracy", "accuracy", share, [](const R& r) { return r.accuracy(); }),
      of_beside("lift", "", rough, &Beside::lift),
      of_result("coverage", "coverage", share, [](const R& r) { return r.coverage(); }),
      of_result("timeliness", "timely", share, [](const R& r) { return r.timeliness(); }),
      of_result("fetched_pages", "fetched", whole, [](const R& r) { return r.fetched_pages; }),
      of_result("written_pages", "written", whole, [](const R& r) { return r.written_pages; }),
      of_result("accesses", "", whole, [](const R& r) { return r.paging.accesses; }),
      of_result("hits", "", whole, [](const R& r) { return r.paging.hits; }),
      of_result("first_accesses", "", whole, [](const R& r) { return r.paging.first_accesses; }),
      of_result("evictions", "", whole, [](const R& r) { return r.paging.evictions; }),
      of_result("imprecise_share", "", share, [](const R& r) { return r.imprecise_share(); }),
      of_result("imprecise_mass", "", share, [](const R& r) { return r.imprecise_mass; }),
      of_result("steps", "", whole, [](const R& r) { return r.steps; }),
      of_result("stalled_steps", "", whole, [](const R& r) { return r.stalled_steps; }),
      of_result("overfull_steps", "", whole, [](const R& r) { return r.overfull_steps; }),
      of_result("demand_fetches", "", whole, [](const R& r) { return r.demand_fetches; }),
      of_result("demands_waited_s", "", rough, [](const R& r) { return seconds(r.waited_ns); }),
      of_result("demand_p50_ms", "", rough,
                [](const R& r) { return r.demand_p50_ns / kMillisecond; }),
      of_result("demand_p99_ms", "", rough,
                [](const R& r) { return r.demand_p99_ns / kMillisecond; }),
      of_result("recomputed_pages", "", whole, [](const R& r) { return r.recomputed_pages; }),
      of_result("wrong_bytes", "", whole, [](const R& r) { return r.wrong_bytes; }),
      of_result("lateness_ms", "", rough,
                [](const R& r) { return static_cast<double>(r.lateness_ns) / kMillisecond; }),
      of_account("prefetches", &Account::begun),
      of_result("useful", "", whole, [](const R& r) { return r.prefetch.useful(); }),
      of_account("timely", &Account::timely),
      of_account("late", &Account::late),
      of_account("unused", &Account::unused),
      of_account("evicted_unused", &Account::evicted),
      of_account("failed", &Account::failed),
      of_account("asked", &Account::asked),
      of_account("cancelled", &Account::cancelled),
      of_account("overtaken", &Account::overtaken),
      of_account("refused", &Account::refused),
      of_foresight("foretold", whole, [](const Foresight& f) { return f.samples; }),
      of_foresight("foretold_dropped", whole, [](const Foresight& f) { return f.dropped; }),
      of_foresight("foretold_base_rate", share, [](const Foresight& f) { return f.base_rate; }),
      of_foresight("foretold_pr_auc", share, [](const Foresight& f) { return f.pr_auc; }),
      of_foresight("foretold_off", share, [](const Foresight& f) { return f.calibration_error; }),
  };
  return all;
}

std::vector<const Column*> shown() {
  std::vector<const Column*> shown;
  for (const Column& column : columns()) {
    if (!column.heading.empty()) shown.push_back(&column);
  }
  return shown;
}

std::string cell(const Column& column, const TimedRun& run, const Beside& beside) {
  const auto value = column.value(run, beside);
  return value ? column.text(*value) : "-";
}

std::string tier_text(const TierOptions& tier) {
  const std::string room =
      tier.capacity_pages == 0 ? "endless" : fmt::format("{} pages", tier.capacity_pages);
  const std::string bits =
      tier.bits == kFullBits ? "" : fmt::format(", {} of {} bits", tier.bits, kFullBits);
  return fmt::format("{:g} µs, {:g} Gb/s, {}{}",
                     static_cast<double>(tier.latency_ns) / kMicrosecond,
                     static_cast<double>(tier.bytes_per_s) * 8 / 1e9, room, bits);
}

std::string setting_line(const TimedOptions& options) {
  std::string line = fmt::format("pages of {} bytes, {:g} ms of compute a step", options.page_bytes,
                                 static_cast<double>(options.compute_ns) / kMillisecond);
  for (const TierOptions& tier : options.tiers) line += "; a tier of " + tier_text(tier);
  return line;
}

}  // namespace

Beside beside(const TimedRun& run, std::span<const TimedRun> runs) {
  Beside beside;
  const TimedRun* none = find(run, "none", runs);
  const TimedRun* oracle = find(run, "oracle", runs);
  const TimedRun* random = find(run, "random", runs);
  const auto stall = [](const TimedRun& of) { return static_cast<double>(of.result.stall_ns); };
  if (none != nullptr && none->result.stall_ns > 0) {
    beside.stall_cut = 1 - stall(run) / stall(*none);
  }
  if (none != nullptr && oracle != nullptr && stall(*none) > stall(*oracle)) {
    beside.normalised_stall = (stall(*none) - stall(run)) / (stall(*none) - stall(*oracle));
  }
  if (none != nullptr && none->result.steps_per_s() > 0) {
    beside.speedup = run.result.steps_per_s() / none->result.steps_per_s();
  }
  if (random != nullptr && random->result.accuracy() > 0) {
    beside.lift = run.result.accuracy() / random->result.accuracy();
  }
  return beside;
}

std::string timed_table(const TimedReport& report) {
  const bool is_placed = report.options.tiers.size() > 1;
  size_t placement_width = std::string_view("placement").size();
  size_t policy_width = std::string_view("policy").size();
  size_t prefetcher_width = std::string_view("prefetch").size();
  for (const TimedRun& run : report.runs) {
    policy_width = std::max(policy_width, run.policy.size());
    prefetcher_width = std::max(prefetcher_width, run.prefetcher.size());
    placement_width = std::max(placement_width, run.placement.size());
  }
  std::string table =
      fmt::format("{}\n{}\n\n{}{:<{}}  {:>8}  {:<{}}  {:<7}", trace_line(report.trace),
                  setting_line(report.options), left_out_lines(report.trace), "policy",
                  policy_width, "budget", "prefetch", prefetcher_width, "clock");
  if (is_placed) table += fmt::format("  {:<{}}", "placement", placement_width);
  for (const Column* column : shown()) table += fmt::format("  {:>11}", column->heading);
  for (const TimedRun& run : report.runs) {
    table += fmt::format("\n{:<{}}  {:>8}  {:<{}}  {:<7}", run.policy, policy_width,
                         run.budget_pages, run.prefetcher, prefetcher_width, clock_of(run));
    if (is_placed) table += fmt::format("  {:<{}}", run.placement, placement_width);
    const Beside others = beside(run, report.runs);
    for (const Column* column : shown())
      table += fmt::format("  {:>11}", cell(*column, run, others));
  }
  return table + '\n';
}

std::string timed_csv(const TimedReport& report) {
  std::string csv = "trace,synthetic,policy,budget_pages,prefetch,placement,clock";
  for (const Column& column : columns()) csv += fmt::format(",{}", column.name);
  for (const TimedRun& run : report.runs) {
    csv += fmt::format("\n{},{},{},{},{},{},{}", paging::csv_field(report.trace.name),
                       report.trace.synthetic, run.policy, run.budget_pages, run.prefetcher,
                       run.placement, clock_of(run));
    const Beside others = beside(run, report.runs);
    for (const Column& column : columns()) {
      const auto value = column.value(run, others);
      csv += value ? fmt::format(",{}", *value) : ",";
    }
  }
  return csv + '\n';
}

std::string timed_json(const TimedReport& report) {
  boost::json::array rows;
  for (const TimedRun& run : report.runs) {
    boost::json::object row = {{"policy", run.policy},
                               {"budget_pages", run.budget_pages},
                               {"prefetch", run.prefetcher},
                               {"placement", run.placement},
                               {"clock", clock_of(run)}};
    const Beside others = beside(run, report.runs);
    for (const Column& column : columns()) {
      const auto value = column.value(run, others);
      boost::json::value& to = row[column.name];
      if (!value) continue;
      if (column.text == whole) {
        to = static_cast<uint64_t>(*value);
      } else {
        to = *value;
      }
    }
    rows.push_back(std::move(row));
  }
  boost::json::array tiers;
  for (const TierOptions& tier : report.options.tiers) {
    tiers.push_back({{"latency_ns", tier.latency_ns},
                     {"bytes_per_s", tier.bytes_per_s},
                     {"capacity_pages", tier.capacity_pages},
                     {"bits", tier.bits}});
  }
  return format_json(boost::json::object{{"trace", report.trace.name},
                                         {"synthetic", report.trace.synthetic},
                                         {"pages", report.trace.pages},
                                         {"left_out", paging::left_out_json(report.trace)},
                                         {"page_bytes", report.options.page_bytes},
                                         {"compute_ns", report.options.compute_ns},
                                         {"prefetch_pages", report.options.prefetch_pages},
                                         {"tiers", std::move(tiers)},
                                         {"runs", std::move(rows)}});
}

std::string timed_html(const TimedReport& report) {
  paging::RunChart chart = {"Stalls against budget",
                            "pages that may be near",
                            "seconds of all steps",
                            LineChart::Scale::kLog,
                            {}};
  const bool has_live = std::ranges::any_of(report.runs, &TimedRun::is_live);
  const bool is_placed = report.options.tiers.size() > 1;
  std::vector<std::string> headings = {"policy", "budget (pages)", "prefetch", "placement",
                                       "clock"};
  for (const Column* column : shown()) headings.emplace_back(column->heading);
  std::vector<std::vector<std::string>> rows = {headings};
  for (const TimedRun& run : report.runs) {
    chart.runs.push_back(
        {run.policy + " + " + run.prefetcher + (is_placed ? " + " + run.placement : ""),
         static_cast<double>(run.budget_pages), seconds(run.result.stall_ns),
         has_live ? std::string(clock_of(run)) : ""});
    std::vector<std::string> cells = {run.policy, std::to_string(run.budget_pages), run.prefetcher,
                                      run.placement, std::string(clock_of(run))};
    const Beside others = beside(run, report.runs);
    for (const Column* column : shown()) cells.push_back(cell(*column, run, others));
    rows.push_back(std::move(cells));
  }
  return html_page("Farpage prefetch: what prefetchers save",
                   trace_html(report.trace) +
                       fmt::format("<p>{}</p>\n", escape_html(setting_line(report.options))) +
                       draw(chart) + html_table(rows));
}

Result<void> write_timed_report(const std::string& folder, const TimedReport& report) {
  return paging::write_report_folder(folder, timed_json(report), timed_html(report));
}

}  // namespace farpage::vtime
