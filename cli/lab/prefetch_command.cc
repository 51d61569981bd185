#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "cli/lab/commands.h"
#include "cli/lab/timed_arguments.h"
#include "cli/options.h"

namespace farpage {
namespace {

struct PrefetchArguments {
  TimedArguments timed;
  std::vector<std::string> tiers;       // as parse_tier() reads them
  std::vector<std::string> placements;  // in these, as policies are named; empty: the usual one
};

Result<vtime::TimedOptions> options_of(const PrefetchArguments& arguments) {
  vtime::TimedOptions options = arguments.timed.options();
  if (!arguments.tiers.empty()) options.tiers.clear();
  for (const std::string& text : arguments.tiers) {
    const auto tier = vtime::parse_tier(text);
    if (!tier) return tl::unexpected(tier.error());
    options.tiers.push_back(*tier);
  }
  if (auto valid = options.validate(); !valid) return tl::unexpected(valid.error());
  if (!arguments.placements.empty() && options.tiers.size() < 2) {
    return fail(Code::kInvalid,
                "--placement chooses the pages that stay in a full tier: give --tier twice, the "
                "first with pages=");
  }
  return options;
}

}  // namespace

void add_prefetch_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "prefetch", "Compares prefetchers on a trace, in virtual time and without a node");
  auto arguments = std::make_shared<PrefetchArguments>();
  arguments->timed.add_to(*command);
  CLI::Option* tier =
      command
          ->add_option(
              "--tier", arguments->tiers,
              "A tier below the budget, nearest first: latency_us=10:gbps=100:pages=20000; "
              "the last is endless and has no pages=. bits=4: pages there keep that many "
              "of 16 bits of each number. Without it: one of 10 µs and 100 Gb/s")
          ->type_name("TIER");
  command
      ->add_option(
          "--placement", arguments->placements,
          "With two tiers or more: the policies that keep pages in a full one; lru by default")
      ->type_name("LIST")
      ->delimiter(',')
      ->check(list_entry())
      ->needs(tier);
  command->callback([arguments, &exit_code] {
    exit_code = run_timed(arguments->timed, options_of(*arguments), arguments->placements,
                          [&](const auto& trace, const auto& options, const auto& plan) {
                            return run_in_virtual_time(trace, options, plan)
                                .and_then([&](const std::vector<vtime::TimedRun>& runs) {
                                  return write_timed(arguments->timed.files, trace, options, runs);
                                });
                          });
  });
}

}  // namespace farpage
