#pragma once

#include <boost/json/fwd.hpp>
#include <cstdint>
#include <functional>
#include <string>

#include "base/histogram.h"
#include "base/status.h"
#include "base/units.h"
#include "client/farpage.h"

namespace farpage {

// The client library as an engine uses it: many threads that submit to its lanes.
struct ClientBenchOptions {
  uint64_t page_bytes = 64 * kKiB;
  uint64_t pages = 1'024;  // put before it measures
  uint64_t batch = 16;     // pages of a fetch
  uint64_t threads = 8;
  double seconds = 1;  // of each measurement

  Result<void> validate() const;
};

struct ClientBenchResult {
  bool interrupted = false;
  double first_page_ms = 0;       // from the call of open() until a page was put and fetched
  Histogram submit_ns;            // of a fetch of 64 pages, on the thread that submits
  Histogram fetch_ns;             // of one page, from submit to verdict
  Histogram leading_ns;           // of all keys
  uint64_t leading_keys = 0;      // of them
  double one_pages_per_s = 0;     // one thread
  double many_pages_per_s = 0;    // all of them
  double driven_pages_per_s = 0;  // one thread that drives a lane of its own
  uint64_t not_ready = 0;         // pages, in all
  uint64_t wrong_bytes = 0;
};

// Opens a client, with an embedded node where `open` names no other, and measures.
Result<ClientBenchResult> run_client_bench(const OpenOptions& open,
                                           const ClientBenchOptions& options,
                                           const std::function<bool()>& interrupted);

struct ClientReport {
  const ClientBenchOptions& options;
  const ClientBenchResult& result;
  std::string version;
};
boost::json::object client_json(const ClientReport& report);
std::string client_table(const ClientReport& report);

}  // namespace farpage
