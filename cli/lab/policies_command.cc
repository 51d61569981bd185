#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cli/exit_code.h"
#include "cli/lab/commands.h"
#include "cli/lab/policy_choice.h"
#include "cli/lab/result_files.h"
#include "lab/paging/paging.h"
#include "lab/paging/report_parts.h"
#include "lab/vtime/timed_replay.h"
#include "report/json.h"
#include "report/progress.h"

namespace farpage {
namespace {

struct PoliciesArguments {
  PolicyArguments chosen;
  ResultFiles files;
};

Result<void> run(const PoliciesArguments& arguments, const paging::AccessTrace& trace,
                 std::span<const prefetch::ChosenPolicy> policies) {
  const std::vector<uint64_t>& budgets = arguments.chosen.budgets_pages;
  const auto runs = [&] {
    Progress progress("replay", "runs", policies.size() * budgets.size());
    return page_all(trace, policies, budgets, [&](size_t done) { progress.update(done); });
  }();
  if (!runs) return tl::unexpected(runs.error());
  return arguments.files.write(
      {paging_csv(trace, *runs), paging_json(trace, *runs), paging_table(trace, *runs),
       [&](const std::string& folder) { return write_paging_report(folder, trace, *runs); }});
}

int run_policies(const PoliciesArguments& arguments) {
  if (arguments.chosen.list) {
    const auto written = write_text("-", policies_text());
    return written ? kExitDone : report_error(written.error());
  }
  if (auto valid = arguments.files.validate(); !valid) {
    return report_error(valid.error(), kExitUsage);
  }
  const auto policies = arguments.chosen.choose();
  if (!policies) return report_error(policies.error(), kExitUsage);
  const auto trace = load_replayed(arguments.chosen.trace);
  if (!trace) return report_error(trace.error());
  const vtime::TimedPlan plan = {*policies, arguments.chosen.budgets_pages, {}};
  if (auto fits = plan.check(*trace); !fits) return report_error(fits.error(), kExitUsage);
  const auto done = run(arguments, *trace, *policies);
  return done ? kExitDone : report_error(done.error());
}

}  // namespace

void add_policies_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "policies", "Counts how often eviction policies hold the pages that a trace reads");
  auto arguments = std::make_shared<PoliciesArguments>();
  arguments->chosen.add_to(*command);
  arguments->files.add_to(*command);
  command->callback([arguments, &exit_code] { exit_code = run_policies(*arguments); });
}

}  // namespace farpage
