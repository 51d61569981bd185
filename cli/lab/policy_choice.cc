#include "cli/lab/policy_choice.h"

#include <fmt/format.h>

#include <span>
#include <utility>

#include "base/stderr.h"
#include "cli/lab/trace/trace_options.h"
#include "cli/options.h"
#include "lab/paging/report_parts.h"

namespace farpage {
namespace {

template <typename Info>
std::string text_of(std::string_view title, std::span<const Info> all) {
  std::string text = fmt::format("{}\n", title);
  for (const Info& info : all) {
    text += fmt::format("  {}: {}\n", info.name, info.what);
    for (const prefetch::Parameter& parameter : info.parameters) {
      text += fmt::format("    {}={}: {}\n", parameter.name, parameter.unset, parameter.meaning);
    }
  }
  return text;
}

}  // namespace

void PolicyArguments::add_to(CLI::App& command) {
  add_trace(command, trace);
  command
      .add_option("--policy", policies,
                  "The policies: NAME, NAME:PARAMETER=VALUE:… or ALLOCATION/NAME, separated by "
                  "commas; --list shows them all")
      ->type_name("LIST")
      ->delimiter(',')
      ->check(list_entry());
  command
      .add_option("--budget", budgets_pages,
                  "How many pages each policy may keep, separated by commas")
      ->type_name("LIST")
      ->delimiter(',')
      ->check(count_text());
  command.add_flag("--list", list, "Lists all of them, with their parameters");
}

Result<std::vector<prefetch::ChosenPolicy>> PolicyArguments::choose() const {
  if (policies.empty() || budgets_pages.empty()) {
    return fail(Code::kInvalid,
                "name policies with --policy and how many pages they may keep with --budget; "
                "--list shows all policies");
  }
  return choose_all(policies, prefetch::choose_policy);
}

Result<paging::AccessTrace> load_replayed(const TraceArguments& arguments) {
  auto trace = load_accesses(arguments);
  if (!trace) return trace;
  const std::string left_out = left_out_line(*trace);
  if (trace->accesses == 0) {
    return fail(Code::kInvalid,
                "the trace has no accesses to replay" + (left_out.empty() ? "" : "; " + left_out));
  }
  if (!left_out.empty()) write_stderr(fmt::format("farpage-lab: {}\n", left_out));
  return trace;
}

std::string policies_text() {
  return text_of("Policies:", prefetch::policies()) +
         text_of("Allocations (ALLOCATION/NAME gives each head's pages a policy of its own):",
                 prefetch::allocations());
}

std::string prefetchers_text() {
  return text_of("Prefetchers:", prefetch::prefetchers());
}

}  // namespace farpage
