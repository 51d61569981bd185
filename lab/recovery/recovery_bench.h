#pragma once

#include <boost/json/fwd.hpp>
#include <cstdint>
#include <string>

namespace farpage {

// Costs and gains of recovery, in virtual time: three nodes, two replicas. For one seed always the
// same, whatever else the machine does.

// One node's reads take 20 times as long, one in a hundred of its own; fetches of one page.
struct HedgingResult {
  uint64_t fetches = 0;  // of each kind
  uint64_t unhedged_p999_ns = 0;
  uint64_t hedged_p999_ns = 0;
  uint64_t hedges = 0;
  uint64_t hedges_won = 0;
  double extra_reads = 0;  // as a part of those without hedges
  uint64_t wrong_bytes = 0;
};
HedgingResult measure_hedging(uint64_t seed);

// A node loses power while several clients fetch batches without a pause.
struct DeathResult {
  struct Span {
    uint64_t pages = 0;
    uint64_t ready = 0;
    uint64_t p99_ns = 0;  // of pages, from their fetch's beginning to their verdict
    uint64_t slowest_ns = 0;
  };
  uint64_t clients = 0;
  uint64_t batch = 0;
  uint64_t deadline_ns = 0;
  uint64_t lease_ns = 0;  // `view_lease`
  Span before;
  Span meanwhile;  // from the death on, for twice `view_lease`
  Span after;
  uint64_t late = 0;  // verdicts after their deadline
  uint64_t wrong_bytes = 0;
};
DeathResult measure_death(uint64_t seed);

struct RecoveryReport {
  HedgingResult hedging;
  DeathResult death;
  std::string version;
};
boost::json::object recovery_json(const RecoveryReport& report);
std::string recovery_table(const RecoveryReport& report);

}  // namespace farpage
