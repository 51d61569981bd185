#include "cli/lab/timed_arguments.h"

#include "base/units.h"
#include "cli/exit_code.h"
#include "cli/options.h"
#include "lab/vtime/timed_report.h"
#include "report/json.h"
#include "report/progress.h"

namespace farpage {

void TimedArguments::add_to(CLI::App& command) {
  chosen.add_to(command);
  command
      .add_option(
          "--prefetch", prefetchers,
          "The prefetchers, named like policies, separated by commas; --list shows them all")
      ->type_name("LIST")
      ->delimiter(',')
      ->check(list_entry())
      ->capture_default_str();
  add_size(command, "--page-bytes", page_bytes, "Size of a page");
  add_count(command, "--compute-us", compute_us,
            "How long a step computes once all its pages are there")
      ->check(CLI::Range(uint64_t{0}, uint64_t{1'000'000'000}));
  add_count(command, "--prefetch-pages", prefetch_pages,
            "Highest number of pages to fetch ahead after a step");
  files.add_to(command);
}

vtime::TimedOptions TimedArguments::options() const {
  vtime::TimedOptions options;
  options.page_bytes = page_bytes;
  options.compute_ns = compute_us * kMicrosecond;
  options.prefetch_pages = prefetch_pages;
  return options;
}

Result<std::vector<vtime::TimedRun>> run_in_virtual_time(const paging::AccessTrace& trace,
                                                         const vtime::TimedOptions& options,
                                                         const vtime::TimedPlan& plan) {
  Progress progress("replay", "runs", plan.runs());
  return replay_all(trace, options, plan, [&](size_t done) { progress.update(done); });
}

Result<void> write_timed(const ResultFiles& files, const paging::AccessTrace& trace,
                         const vtime::TimedOptions& options,
                         const std::vector<vtime::TimedRun>& runs) {
  const vtime::TimedReport report = {trace, options, runs};
  return files.write(
      {timed_csv(report), timed_json(report), timed_table(report),
       [&](const std::string& folder) { return write_timed_report(folder, report); }});
}

int run_timed(const TimedArguments& arguments, const Result<vtime::TimedOptions>& options,
              const std::vector<std::string>& placements, const RunTimed& run) {
  if (arguments.chosen.list) {
    const auto written = write_text("-", policies_text() + prefetchers_text());
    return written ? kExitDone : report_error(written.error());
  }
  if (!options) return report_error(options.error(), kExitUsage);
  const auto valid = arguments.files.validate().and_then([&] { return options->validate(); });
  if (!valid) return report_error(valid.error(), kExitUsage);
  const auto policies = arguments.chosen.choose();
  if (!policies) return report_error(policies.error(), kExitUsage);
  const auto prefetchers = choose_all(arguments.prefetchers, prefetch::choose_prefetcher);
  if (!prefetchers) return report_error(prefetchers.error(), kExitUsage);
  const auto placed = choose_all(placements, prefetch::choose_policy);
  if (!placed) return report_error(placed.error(), kExitUsage);
  vtime::TimedPlan plan = {*policies, arguments.chosen.budgets_pages, *prefetchers};
  if (!placed->empty()) plan.placements = *placed;
  const auto trace = load_replayed(arguments.chosen.trace);
  if (!trace) return report_error(trace.error());
  if (auto fits = plan.check(*trace); !fits) return report_error(fits.error(), kExitUsage);
  const auto done = run(*trace, *options, plan);
  return done ? kExitDone : report_error(done.error());
}

}  // namespace farpage
