#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/lab/trace/replay_trace.h"
#include "cli/options.h"

namespace farpage {

// One of `formats`; for one of the others the error names the command that takes it.
inline CLI::Validator format_name(std::span<const char* const> formats) {
  const std::vector<std::string> taken(formats.begin(), formats.end());
  return CLI::Validator(
      [taken](std::string& name) -> std::string {
        if (std::ranges::find(taken, name) != taken.end()) return "";
        if (std::ranges::find(kFormats, std::string_view(name)) != kFormats.end()) {
          return fmt::format(
              "{} has no requests to send to a node: `farpage-lab policies` and "
              "`prefetch` take it",
              name);
        }
        return fmt::format("'{}' is none of {}", name, fmt::join(taken, ", "));
      },
      fmt::format("{}", fmt::join(formats, "|")));
}

// Which trace, for whatever is done with it.
inline void add_trace(CLI::App& command, TraceArguments& trace,
                      std::span<const char* const> formats = kFormats) {
  command.add_option("trace", trace.trace,
                     "A trace, or \"generate\" for a synthetic one. Without it: "
                     "mooncake/conversation_trace.jsonl in $FARPAGE_TRACES or traces/, else a "
                     "synthetic one");
  command
      .add_option("--format", trace.format, "Format of the trace (docs/formats/request-traces.md)")
      ->check(format_name(formats))
      ->capture_default_str();
  add_count(command, "--requests", trace.requests, "Stops after this many; 0: the whole trace");
  add_count(command, "--seed", trace.seed, "Seed of the synthetic trace and of all draws");
}

}  // namespace farpage
