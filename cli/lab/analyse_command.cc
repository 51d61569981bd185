#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "cli/exit_code.h"
#include "cli/lab/commands.h"
#include "cli/lab/trace/replay_trace.h"
#include "cli/lab/trace/trace_options.h"
#include "cli/options.h"
#include "lab/analyse/analysis.h"
#include "lab/paging/report_parts.h"
#include "report/json.h"
#include "report/progress.h"

namespace farpage {
namespace {

struct AnalyseArguments {
  TraceArguments trace;
  uint64_t budget_pages = 0;
  std::string labels;
  std::string json;
  std::string report;
};

// So that standard error tells how far a long trace has been read.
paging::AccessTrace counted(const paging::AccessTrace& trace, Progress& progress) {
  struct Counter {
    std::mutex mutex;
    uint64_t accesses = 0;
  };
  const auto counter = std::make_shared<Counter>();
  return observed(trace, [counter, &progress](size_t accesses) {
    const std::lock_guard lock(counter->mutex);
    progress.update(counter->accesses += accesses);
  });
}

Result<void> run_analyse(const AnalyseArguments& arguments) {
  const auto trace = load_accesses(arguments.trace);
  if (!trace) return tl::unexpected(trace.error());
  analyse::AnalysisOptions options;
  options.budget_pages = arguments.budget_pages;
  options.seed = arguments.trace.seed;
  if (!arguments.labels.empty()) {
    auto milestones = analyse::read_milestones(arguments.labels, trace->pages);
    if (!milestones) return tl::unexpected(milestones.error());
    options.milestones = std::move(*milestones);
  }
  const auto analysis = [&] {
    Progress progress("analyse", "accesses", trace->accesses * analyse::passes_over(*trace));
    return analyse::analyse(counted(*trace, progress), options);
  }();
  if (!analysis) return tl::unexpected(analysis.error());
  if (!arguments.json.empty()) {
    if (auto written = write_text(arguments.json, analysis_json(*trace, *analysis)); !written) {
      return written;
    }
  }
  std::string text = analysis_text(*trace, *analysis);
  if (!arguments.report.empty()) {
    auto written = paging::write_report_folder(arguments.report, analysis_json(*trace, *analysis),
                                               analysis_html(*trace, *analysis));
    if (!written) return written;
    text += fmt::format("\nreport: {}/report.html\n", arguments.report);
  }
  if (arguments.json == "-") return {};
  return write_text("-", text);
}

}  // namespace

void add_analyse_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("analyse",
                                         "Analyses how a trace's pages come back, and whether "
                                         "recency, attention or importance predict it");
  auto arguments = std::make_shared<AnalyseArguments>();
  add_trace(*command, arguments->trace);
  add_count(*command, "--budget", arguments->budget_pages,
            "Size of the memories to look at, in pages; 0: a tenth of all");
  command
      ->add_option("--labels", arguments->labels,
                   "CSV file \"page,label\" that says which pages are milestones, by their numbers "
                   "in the order in which the trace first names them")
      ->type_name("FILE");
  add_json(*command, arguments->json);
  command
      ->add_option("--report", arguments->report,
                   "Writes report.html and report.json into this folder")
      ->type_name("DIR");
  command->callback([arguments, &exit_code] {
    const auto done = run_analyse(*arguments);
    exit_code = done ? kExitDone : report_error(done.error());
  });
}

}  // namespace farpage
