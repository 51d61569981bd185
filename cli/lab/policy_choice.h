#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "cli/lab/trace/replay_trace.h"
#include "lab/paging/access_trace.h"
#include "prefetch/registry/registry.h"

namespace CLI {
class App;
}

namespace farpage {

// The policies that a command runs over a trace, each with each budget.
struct PolicyArguments {
  TraceArguments trace;
  std::vector<std::string> policies;  // NAME or NAME:PARAMETER=VALUE:…
  std::vector<uint64_t> budgets_pages;
  bool list = false;  // tells which there are, and runs none

  void add_to(CLI::App& command);
  // The choice that `--policy` and `--budget` make.
  Result<std::vector<prefetch::ChosenPolicy>> choose() const;
};

// The accesses of the trace; tells on standard error which of them were left out. Fails if none is
// left.
Result<paging::AccessTrace> load_replayed(const TraceArguments& arguments);

template <typename Chosen>
Result<std::vector<Chosen>> choose_all(const std::vector<std::string>& names,
                                       Result<Chosen> (*choose)(std::string_view)) {
  std::vector<Chosen> all;
  for (const std::string& name : names) {
    auto chosen = choose(name);
    if (!chosen) return tl::unexpected(chosen.error());
    all.push_back(std::move(*chosen));
  }
  return all;
}

// All policies and allocations, or all prefetchers, with their parameters, for a person.
std::string policies_text();
std::string prefetchers_text();

}  // namespace farpage
