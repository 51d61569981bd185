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

  Result<void> validate() const;
};

// What a node answers while it enters an epoch, and before.
struct EpochPhase {
  std::string what;
  double seconds = 0;  // until the node has confirmed the epoch
  double answers_per_s = 0;
  double longest_gap_ms = 0;  // between two answers of the node's thread
  uint64_t killed = 0;        // pages
  uint64_t without_view = 0;  // questions of the client that it could not ask
};

struct EpochBenchResult {
  bool interrupted = false;
  uint64_t pages = 0;              // that the node held at first
  std::vector<EpochPhase> phases;  // of the first no epoch begins

  // Of the phases in which an epoch begins.
  double longest_renewal_gap_ms() const;
};

// Starts a node, a member of a fleet of its own, and fills it with pages through a client. Then
// the others join, one leaves, and one joins, by the register alone: no process runs but this one.
// Meanwhile the client asks the node's one thread, which answers renewals too, over and over.
Result<EpochBenchResult> run_epoch_bench(
    const EpochBenchOptions& options, const std::function<std::unique_ptr<Fabric>()>& make_fabric,
    const std::function<bool()>& interrupted,
    const std::function<void(uint64_t, uint64_t)>& filled);

boost::json::object epoch_json(const EpochBenchOptions& options, const EpochBenchResult& result,
                               const std::string& version);
std::string epoch_table(const EpochBenchResult& result);

}  // namespace farpage
