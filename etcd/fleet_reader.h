#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "base/status.h"
#include "etcd/client.h"
#include "etcd/records.h"

namespace farpage::etcd {

// Reads a fleet's records again and again. While nothing is written, a read brings the terms alone;
// then it brings the records that were written since the last one. All of them come at first, once
// a record was erased, and once an etcd has answered that is not believed (Client::disbelieved).
//
// Thread-safe. Reads may pass each other, and each is right for its own time.
class FleetReader {
 public:
  using Record = std::shared_ptr<const FleetRecord>;

  // `client` outlives it.
  explicit FleetReader(Client& client) : client_(client) {}

  Client& client() { return client_; }

  // Linearizable: what it answers was true at some moment between call and answer. Blocks until
  // the deadline (boottime_clock) at most. kInvalid: see decode_fleet().
  Result<Record> read(uint64_t deadline_ns);

 private:
  struct Known {
    std::string terms;  // as they stand in etcd
    Record fleet;       // null: nothing was read yet
    uint64_t disbelieved = 0;
  };

  Result<Record> read_all(uint64_t deadline_ns);
  Result<Record> read_since(const Known& known, uint64_t deadline_ns);
  Known known() const;
  Record keep(std::string terms, FleetRecord fleet, uint64_t disbelieved);

  Client& client_;
  mutable std::mutex mutex_;  // of what follows; never held while something blocks
  Known known_;
};

}  // namespace farpage::etcd
