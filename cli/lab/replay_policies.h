#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/lab/replay_live.h"
#include "cli/lab/replay_trace.h"
#include "lab/vtime/timed_replay.h"

namespace farpage {

// A replay of what policies would keep: without a node, unless it is live.
struct PagingArguments {
  std::vector<std::string> policies;  // NAME or NAME:PARAMETER=VALUE:…
  std::vector<uint64_t> budgets_pages;
  std::vector<std::string> prefetchers;  // empty: without time
  uint64_t page_bytes = 0;
  uint64_t compute_us = 20'000;
  uint64_t prefetch_pages = vtime::TimedOptions().prefetch_pages;
  std::vector<std::string> tiers;       // as parse_tier() reads them
  std::vector<std::string> placements;  // in these, as policies are named; empty: the usual one
  std::optional<LiveArguments> live;    // over a node as well
  std::string json;
  std::string csv;
  std::string report;  // a folder
};
int run_paging(const PagingArguments& arguments, const TraceArguments& trace);

// The runs of another simulator, from its own files.
struct CompatArguments {
  std::string which;
  std::string input;  // the folder of its workloads
  std::string csv = "-";
};
int run_compat(const CompatArguments& arguments);

// What --policy and --prefetch take, for a person.
std::string policies_help();
std::string prefetchers_help();

}  // namespace farpage
