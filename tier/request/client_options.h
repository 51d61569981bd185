#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/config/config.h"
#include "base/status.h"
#include "base/units.h"
#include "integrity/host_checker.h"

namespace farpage {

struct ClientOptions {
  static constexpr uint64_t kMostHedgePlaces = 64;

  // Bytes that may be on their way in puts at one time, at each node; 0: this client puts nothing.
  uint64_t staging_bytes = 64 * kMiB;
  uint64_t location_pages = 0;  // size of the page table of each node; 0: as many as it has slots
  uint64_t hedge_places = 16;   // pages of a lane's own that hedges land in; 0: no hedges
  // What its pages depend on, in lines NAME=VALUE, for its nodes' status and for `farpage flush`;
  // empty: nothing is told. Keys do not follow from it.
  std::string facts = "";
  uint64_t connect_ms = 2'000;      // how long to wait for the first hello
  uint64_t rest_ms = 0;             // a link that nobody has used for so long rests; 0: none does
  std::string metrics_listen = "";  // where the program that holds the client shows describe()
  bool verify = true;               // false leaves the payload's CRC unchecked: for benchmarks, and
                                    // not a key of any configuration
  // Where lanes get what checks payloads that no backend has counted the CRC of; outlives the
  // client.
  CheckerFactory* checkers = &host_checkers();

  Result<void> validate() const;
};
std::vector<ConfigField> fields(ClientOptions& options);

}  // namespace farpage
