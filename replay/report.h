#pragma once

#include <boost/json/fwd.hpp>
#include <string>

#include "base/status.h"
#include "replay/replay.h"
#include "replay/traces/trace.h"
#include "transport/fabric.h"
#include "transport/traffic.h"

namespace farpage {

// The circumstances without which a result is worth nothing.
struct ReplayContext {
  std::string version;
  std::string trace_origin;  // how the trace was found
  bool own_node = true;
  uint64_t node_pool_bytes = 0;
};

struct ReplayReport {
  const Trace& trace;
  const ReplayOptions& options;
  const ReplayResult& result;
  const Capabilities& capabilities;
  const std::vector<PathUse>& paths;
  const ReplayContext& context;
};

boost::json::object replay_json(const ReplayReport& report);

// For a person at a terminal.
std::string replay_table(const ReplayReport& report);

// One page that needs nothing else: the table and three pictures, the distribution of fetch
// latency, and fetch latency and hit rate over time with what befell the replay.
std::string replay_html(const ReplayReport& report);

// Writes report.json and report.html into a folder, which is made if it is not there.
Result<void> write_report(const std::string& folder, const ReplayReport& report);

}  // namespace farpage
