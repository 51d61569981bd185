#include "cli/lab/replay_policies.h"

#include <fmt/format.h>

#include <functional>
#include <span>
#include <utility>

#include "base/clock.h"
#include "base/stderr.h"
#include "cli/exit_code.h"
#include "lab/kvhl/sweep.h"
#include "lab/paging/access_trace.h"
#include "lab/paging/paging.h"
#include "lab/paging/report_parts.h"
#include "lab/vtime/timed_replay.h"
#include "lab/vtime/timed_report.h"
#include "prefetch/registry/registry.h"
#include "report/json.h"
#include "report/progress.h"

namespace farpage {
namespace {

// The three that a replay's figures are written as, beside a table for a person.
struct Written {
  std::string csv;
  std::string json;
  std::string table;
  std::function<Result<void>(const std::string& folder)> report;
};

Result<void> write_results(const PagingArguments& arguments, Written written) {
  if (!arguments.csv.empty()) {
    if (auto done = write_text(arguments.csv, written.csv); !done) return done;
  }
  if (!arguments.json.empty()) {
    if (auto done = write_text(arguments.json, written.json); !done) return done;
  }
  if (!arguments.report.empty()) {
    if (auto done = written.report(arguments.report); !done) return done;
    written.table += fmt::format("\nreport: {}/report.html\n", arguments.report);
  }
  if (arguments.json == "-" || arguments.csv == "-") return {};
  return write_text("-", written.table);
}

Result<void> run_untimed(const PagingArguments& arguments, const paging::AccessTrace& trace,
                         std::span<const prefetch::ChosenPolicy> policies) {
  const auto runs = [&] {
    Progress progress("replay", "runs", policies.size() * arguments.budgets_pages.size());
    return page_all(trace, policies, arguments.budgets_pages,
                    [&](size_t done) { progress.update(done); });
  }();
  if (!runs) return tl::unexpected(runs.error());
  return write_results(arguments, {paging_csv(trace, *runs), paging_json(trace, *runs),
                                   paging_table(trace, *runs), [&](const std::string& folder) {
                                     return write_paging_report(folder, trace, *runs);
                                   }});
}

Result<void> run_timed(const PagingArguments& arguments, const paging::AccessTrace& trace,
                       const vtime::TimedOptions& options, const vtime::TimedPlan& plan) {
  auto runs = [&] {
    Progress progress("replay", "runs", plan.runs());
    return replay_all(trace, options, plan, [&](size_t done) { progress.update(done); });
  }();
  if (!runs) return tl::unexpected(runs.error());
  uint64_t wrong_bytes = 0;
  if (arguments.live) {
    const auto live = run_live(*arguments.live, trace, options, plan);
    if (!live) return tl::unexpected(live.error());
    runs->insert(runs->end(), live->begin(), live->end());
    for (const vtime::TimedRun& run : *live) wrong_bytes += run.result.wrong_bytes;
  }
  const vtime::TimedReport report = {trace, options, *runs};
  auto written = write_results(
      arguments, {timed_csv(report), timed_json(report), timed_table(report),
                  [&](const std::string& folder) { return write_timed_report(folder, report); }});
  if (!written || wrong_bytes == 0) return written;
  return fail(Code::kSystem, fmt::format("{} wrong bytes were served as ready", wrong_bytes));
}

Result<vtime::TimedOptions> timed_options(const PagingArguments& arguments) {
  vtime::TimedOptions options;
  options.page_bytes = arguments.page_bytes;
  options.compute_ns = arguments.compute_us * kMicrosecond;
  options.prefetch_pages = arguments.prefetch_pages;
  if (!arguments.tiers.empty()) options.tiers.clear();
  if (arguments.live) options.tiers = {arguments.live->link};
  for (const std::string& text : arguments.tiers) {
    const auto tier = vtime::parse_tier(text);
    if (!tier) return tl::unexpected(tier.error());
    options.tiers.push_back(*tier);
  }
  if (auto valid = options.validate(); !valid) return tl::unexpected(valid.error());
  if (!arguments.placements.empty() && options.tiers.size() < 2) {
    return fail(Code::kInvalid,
                "--placement says what stays in a tier that gets full: give --tier twice, the "
                "first with pages=");
  }
  return options;
}

template <typename Chosen>
Result<std::vector<Chosen>> choose_all(const std::vector<std::string>& names,
                                       Result<Chosen> (*choose)(std::string_view)) {
  std::vector<Chosen> all;
  for (const std::string& name : names) {
    auto chosen = choose(name);
    if (!chosen) return tl::unexpected(chosen.error());
    all.push_back(std::move(*chosen));
  }
  return all;
}

template <typename Info>
std::string help_of(std::string help, std::span<const Info> all) {
  for (const Info& info : all) {
    help += fmt::format("\n{}: {}", info.name, info.what);
    for (const prefetch::Parameter& parameter : info.parameters) {
      help += fmt::format("\n  {}={}: {}", parameter.name, parameter.unset, parameter.meaning);
    }
  }
  return help;
}

}  // namespace

int run_paging(const PagingArguments& arguments, const TraceArguments& trace_arguments) {
  if (arguments.json == "-" && arguments.csv == "-") {
    return report_error({Code::kInvalid,
                         "--json - and --csv - would both go to standard output: give one of them "
                         "a file"},
                        kExitUsage);
  }
  const auto policies = choose_all(arguments.policies, prefetch::choose_policy);
  if (!policies) return report_error(policies.error(), kExitUsage);
  const auto prefetchers = choose_all(arguments.prefetchers, prefetch::choose_prefetcher);
  if (!prefetchers) return report_error(prefetchers.error(), kExitUsage);
  const auto placements = choose_all(arguments.placements, prefetch::choose_policy);
  if (!placements) return report_error(placements.error(), kExitUsage);
  const auto options = timed_options(arguments);
  if (!options) return report_error(options.error(), kExitUsage);
  const auto trace = load_accesses(trace_arguments);
  if (!trace) return report_error(trace.error());
  const std::string left_out = left_out_line(*trace);
  if (trace->accesses == 0) {
    return report_error({Code::kInvalid, "the trace has no accesses to replay" +
                                             (left_out.empty() ? "" : "; " + left_out)});
  }
  if (!left_out.empty()) write_stderr(fmt::format("farpage-lab: {}\n", left_out));
  vtime::TimedPlan plan = {*policies, arguments.budgets_pages, *prefetchers};
  if (!placements->empty()) plan.placements = *placements;
  if (auto fits = plan.check(*trace); !fits) return report_error(fits.error(), kExitUsage);
  const auto done = prefetchers->empty() ? run_untimed(arguments, *trace, *policies)
                                         : run_timed(arguments, *trace, *options, plan);
  return done ? kExitDone : report_error(done.error());
}

int run_compat(const CompatArguments& arguments) {
  if (arguments.input.empty()) {
    return report_error({Code::kInvalid,
                         "--compat kvhl needs --input FOLDER, with the workloads "
                         "(NAME.trace.csv, NAME.QUANTISATION.pages.csv)"},
                        kExitUsage);
  }
  const auto table = kvhl::sweep(arguments.input, [](size_t, size_t) {});
  if (!table) return report_error(table.error());
  const auto written = write_text(arguments.csv, *table);
  return written ? kExitDone : report_error(written.error());
}

std::string policies_help() {
  const std::string policies = help_of(
      "Replays without a node what these policies keep, with commas between: NAME, "
      "or NAME:PARAMETER=VALUE:…",
      prefetch::policies());
  return help_of(
      policies + "\nALLOCATION/NAME: for each head's pages a policy of its own. Allocations:",
      prefetch::allocations());
}

std::string prefetchers_help() {
  return help_of(
      "With --policy: replays in virtual time, with these prefetchers, named like policies",
      prefetch::prefetchers());
}

}  // namespace farpage
