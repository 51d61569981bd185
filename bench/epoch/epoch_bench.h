#pragma once

#include <boost/json/fwd.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "transport/fabric.h"

namespace farpage {

struct EpochBenchOptions {
  uint64_t pages = 1'000'000;
  uint64_t page_bytes = 64;
  uint64_t members = 3;  // of the fleet, of which this node alone runs
  uint64_t lease_ms = 2'000;
  bool fetches = false;  // the client fetches, rather than ask

  Result<void> validate() const;
};

// What a client gets of a node while that enters an epoch, or while none begins.
struct EpochPhase {
  std::string what;
  double seconds = 0;     // until the node has confirmed the epoch
  double per_s = 0;       // answers, or pages that were ready
  double longest_ms = 0;  // between two answers of the node's thread, or of a fetch
  uint64_t killed = 0;    // pages
  uint64_t missed = 0;    // questions that the client could not ask, or pages that were not ready
};

struct EpochBenchResult {
  bool interrupted = false;
  uint64_t pages = 0;              // that the node held at first
  EpochPhase quiet;                // no epoch begins, once the others have joined
  std::vector<EpochPhase> phases;  // in each of which one begins

  double longest_ms() const;
  // The slowest of those that last, against the one in which none does; 0: none lasts.
  double least_throughput() const;
};

// Starts a node, a member of a fleet of its own, and fills it with pages through a client. Then
// the others join, one leaves, and one joins, by the register alone: no process runs but this one.
// Meanwhile the client asks the node's one thread, which answers renewals too, over and over, or
// fetches pages that stay.
Result<EpochBenchResult> run_epoch_bench(
    const EpochBenchOptions& options, const std::function<std::unique_ptr<Fabric>()>& make_fabric,
    const std::function<bool()>& interrupted,
    const std::function<void(uint64_t, uint64_t)>& filled);

boost::json::object epoch_json(const EpochBenchOptions& options, const EpochBenchResult& result,
                               const std::string& version);
std::string epoch_table(const EpochBenchOptions& options, const EpochBenchResult& result);

}  // namespace farpage
