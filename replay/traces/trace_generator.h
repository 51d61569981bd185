#pragma once

#include <cstdint>

#include "replay/traces/trace.h"

namespace farpage {

// A trace in the manner of Mooncake's conversation trace, for where there is no recorded one: a few
// system prompts that many conversations share, and conversations of several turns, each of which
// repeats all blocks of the one before. Its proportions are made up, so it shows that things work
// and nothing about hit rates in production. The same seed gives the same trace everywhere.
struct TraceGeneratorOptions {
  uint64_t seed = 1;
  uint64_t requests = 4'000;
};

Trace generate_trace(const TraceGeneratorOptions& options);

}  // namespace farpage
