#pragma once

#include <cstdint>

namespace farpage {

struct EpochNewsOptions {
  uint64_t clients = 10'000;
  uint64_t members = 16;  // of the epoch; each client has a link to each
  uint64_t view_ns = 2'000'000'000;
  // How long the register is busy with one read; 0: it answers any number at once. Reads wait for
  // each other, and for no longer than half a view's time.
  uint64_t read_busy_ns = 0;
  bool watches = false;        // every watcher is told of each write there, as etcd does it
  uint64_t confirmations = 0;  // that follow the epoch, from as many members
  uint64_t seed = 1;
};

// How an epoch comes to the clients of a fleet, in virtual time: the product's own view of the
// epoch at each client (tier/link/fleet_link.h), and one register.
struct EpochNews {
  uint64_t clients = 0;
  uint64_t median_ns = 0;     // from the epoch's beginning until a client is in it
  uint64_t last_ns = 0;       // until the last one is
  uint64_t reads = 0;         // of the register, from the epoch's beginning on, for one view's time
  uint64_t reads_before = 0;  // in as long a time before
  double served = 0;          // part of the clients that had a valid view, before the epoch
};
EpochNews measure_epoch_news(const EpochNewsOptions& options);

}  // namespace farpage
