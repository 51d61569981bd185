#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "bench/analyse/analysis.h"
#include "bench/json.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/options.h"
#include "cli/replay_trace.h"
#include "cli/trace_options.h"

namespace farpage {
namespace {

struct AnalyseArguments {
  TraceArguments trace;
  uint64_t budget_pages = 0;
  std::string json;
};

Result<void> run_analyse(const AnalyseArguments& arguments) {
  const auto trace = load_accesses(arguments.trace);
  if (!trace) return tl::unexpected(trace.error());
  const auto analysis = analyse::analyse(
      *trace, {.budget_pages = arguments.budget_pages, .seed = arguments.trace.seed});
  if (!analysis) return tl::unexpected(analysis.error());
  if (!arguments.json.empty()) {
    if (auto written = write_text(arguments.json, analysis_json(*trace, *analysis)); !written) {
      return written;
    }
  }
  if (arguments.json == "-") return {};
  return write_text("-", analysis_text(*trace, *analysis));
}

}  // namespace

void add_analyse_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "analyse", "Tells how a trace's pages come back, and whether recency foretells it");
  auto arguments = std::make_shared<AnalyseArguments>();
  add_trace(*command, arguments->trace);
  add_count(*command, "--budget", arguments->budget_pages,
            "How many pages count as the most recent; 0: a tenth of all");
  add_json(*command, arguments->json);
  command->callback([arguments, &exit_code] {
    const auto done = run_analyse(*arguments);
    exit_code = done ? kExitDone : report_error(done.error());
  });
}

}  // namespace farpage
