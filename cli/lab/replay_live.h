#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/client/connection.h"
#include "lab/paging/access_trace.h"
#include "lab/vtime/timed_replay.h"
#include "prefetch/registry/registry.h"

namespace farpage {

struct LiveArguments {
  ConnectOptions connect;
  vtime::TierOptions link;
  uint64_t pool_bytes = 0;  // of its own node; 0: what the trace needs
  uint64_t deadline_ns = kSecond;
};

// The whole plan, of which one placement, over a memory node, one after the other. `options`: what
// virtual time was asked.
Result<std::vector<vtime::TimedRun>> run_live(const LiveArguments& arguments,
                                              const paging::AccessTrace& trace,
                                              const vtime::TimedOptions& options,
                                              const vtime::TimedPlan& plan);

}  // namespace farpage
