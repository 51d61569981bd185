#pragma once

#include <array>
#include <boost/json/fwd.hpp>
#include <cstdint>
#include <functional>
#include <string>

#include "base/histogram.h"
#include "base/status.h"
#include "base/units.h"
#include "tier/client.h"

namespace farpage {

struct PutBenchOptions {
  uint64_t page_bytes = 64 * kKiB;
  uint64_t batch = 1;                // pages a put
  uint64_t pool_bytes = 256 * kMiB;  // of keys, which are put again and again
  double seconds = 5;
  bool in_place = false;  // of a file in memory, for nodes that read it in place
  std::string name_space = "bench";

  Result<void> validate() const;
};

struct PutBenchResult {
  bool interrupted = false;
  std::array<uint64_t, kCodes> pages = {};  // by what became of them; kOk: acknowledged
  Histogram put_ns;                         // from the call until all its pages have their result
  double pages_per_s = 0;                   // acknowledged
  uint64_t pages_in_place = 0;              // that the node read there, by its count
};

// Puts pages, one put after the other, each time another key.
Result<PutBenchResult> run_put_bench(Client& client, const PutBenchOptions& options,
                                     const std::function<bool()>& interrupted);

struct PutReport {
  const PutBenchOptions& options;
  const PutBenchResult& result;
  const Capabilities& capabilities;
  std::string version;
  bool own_node = true;
  uint64_t nodes = 1;
  uint64_t replicas = 1;
};
boost::json::object put_json(const PutReport& report);
std::string put_table(const PutReport& report);

}  // namespace farpage
