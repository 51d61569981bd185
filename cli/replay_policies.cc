#include "cli/replay_policies.h"

#include <fmt/format.h>

#include <utility>

#include "bench/json.h"
#include "bench/kvhl/sweep.h"
#include "bench/paging/access_trace.h"
#include "bench/paging/paging.h"
#include "bench/progress.h"
#include "cli/exit_code.h"
#include "prefetch/registry.h"

namespace farpage {
namespace {

Result<void> write_results(const PagingArguments& arguments, const paging::AccessTrace& trace,
                           const std::vector<paging::PagingRun>& runs) {
  if (!arguments.csv.empty()) {
    if (auto written = write_text(arguments.csv, paging_csv(trace, runs)); !written) return written;
  }
  if (!arguments.json.empty()) {
    if (auto written = write_text(arguments.json, paging_json(trace, runs)); !written) {
      return written;
    }
  }
  std::string table = paging_table(trace, runs);
  if (!arguments.report.empty()) {
    if (auto written = write_paging_report(arguments.report, trace, runs); !written) return written;
    table += fmt::format("\nreport: {}/report.html\n", arguments.report);
  }
  if (arguments.json == "-" || arguments.csv == "-") return {};
  return write_text("-", table);
}

}  // namespace

int run_paging(const PagingArguments& arguments, const TraceArguments& trace_arguments) {
  std::vector<prefetch::ChosenPolicy> policies;
  for (const std::string& name : arguments.policies) {
    auto chosen = prefetch::choose_policy(name);
    if (!chosen) return report_error(chosen.error(), kExitUsage);
    policies.push_back(std::move(*chosen));
  }
  const auto trace = load_accesses(trace_arguments);
  if (!trace) return report_error(trace.error());
  auto runs = [&] {
    Progress progress("replay", "runs", policies.size() * arguments.budgets_pages.size());
    return page_all(*trace, policies, arguments.budgets_pages,
                    [&](size_t done) { progress.update(done); });
  }();
  if (!runs) return report_error(runs.error());
  const auto written = write_results(arguments, *trace, *runs);
  return written ? kExitDone : report_error(written.error());
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
  std::string help =
      "Replays without a node what these policies keep, with commas between: NAME, "
      "or NAME:PARAMETER=VALUE:…";
  for (const prefetch::PolicyInfo& policy : prefetch::policies()) {
    help += fmt::format("\n{}: {}", policy.name, policy.what);
    for (const prefetch::Parameter& parameter : policy.parameters) {
      help += fmt::format("\n  {}={}: {}", parameter.name, parameter.unset, parameter.meaning);
    }
  }
  return help;
}

}  // namespace farpage
