#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/lab/replay_trace.h"
#include "cli/options.h"

namespace farpage {

// Which trace, for whatever is done with it.
inline void add_trace(CLI::App& command, TraceArguments& trace) {
  command.add_option("trace", trace.trace,
                     "A trace, or \"generate\" for a synthetic one. Without it: "
                     "mooncake/conversation_trace.jsonl in $FARPAGE_TRACES or traces/, else a "
                     "synthetic one");
  command
      .add_option("--format", trace.format,
                  "Format of the trace: mooncake; agent, sessions of coding agents: a file each, a "
                  "line each, or a folder of such files; azure, arrivals and lengths alone, so no "
                  "page comes twice; access, "
                  "whose accesses may carry signals; kvhl, a workload of KV-Hierarchy-Lab's, "
                  "NAME.trace.csv")
      ->check(CLI::IsMember(std::vector<std::string>(kFormats.begin(), kFormats.end())))
      ->capture_default_str();
  add_count(command, "--requests", trace.requests, "Stops after so many; 0: the whole trace");
  add_count(command, "--seed", trace.seed, "Of the synthetic trace, and of what is drawn");
}

}  // namespace farpage
