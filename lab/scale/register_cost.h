#pragma once

#include <cstdint>

#include "base/status.h"
#include "etcd/options.h"

namespace farpage {

// Bytes of the records of a fleet of `nodes` nodes, all of which live and have confirmed.
struct RecordCost {
  uint64_t epoch_bytes = 0;  // of its value, which one transaction writes
  uint64_t read_bytes = 0;   // keys and values that a read brings, in the base64 of etcd's gateway
  uint64_t find_all_ns = 0;  // of looking for each member's record, as a node's registration does
};
RecordCost measure_records(uint64_t nodes);

// Reads by the product's own client at a real etcd.
struct RegisterReads {
  uint64_t reads = 0;
  double per_s = 0;            // of all readers
  uint64_t client_cpu_ns = 0;  // of the reader, for a read
};
struct RegisterCost {
  uint64_t nodes = 0;
  uint64_t readers = 0;  // at once
  RegisterReads whole;
  RegisterReads changed;    // each reader has confirmed since (etcd/fleet_reader.h)
  RegisterReads unchanged;  // nothing was written since
};
// `readers` at once, each with `reads` of the first two kinds, and more of the third. Writes
// records below /farpage/bench-scale-NODES/ instead of the prefix of `access`, and leaves them
// there.
Result<RegisterCost> measure_register(etcd::Access access, uint64_t nodes, uint64_t readers,
                                      uint64_t reads);

}  // namespace farpage
