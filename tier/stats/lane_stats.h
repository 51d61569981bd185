#pragma once

#include <cstdint>

namespace farpage {

struct LaneStats {
  uint64_t pages_ready = 0;
  uint64_t pages_recompute = 0;
  uint64_t posts = 0;        // batches handed to the transport
  uint64_t operations = 0;   // reads in them
  uint64_t index_looks = 0;  // pages whose buckets were read
  uint64_t located = 0;      // pages whose location was cached
  // Data paths given up: an operation did not end within `read_window`, or the node was silent for
  // long. A deadline that passes gives none up.
  uint64_t channels_ended = 0;
  uint64_t strays = 0;         // completions that came again, and were not counted
  uint64_t late_verdicts = 0;  // given after their deadline, because this thread was not running
  uint64_t latest_ns = 0;      // the most that one of them was late
  uint64_t next_replicas = 0;  // pages asked of another replica, after one that did not have them
  uint64_t hedges = 0;         // pages asked of another replica beside one that was slow
  uint64_t hedges_won = 0;     // ... and that came from there
  uint64_t straight = 0;       // pages copied to a device from where they lay in a node's memory
};

}  // namespace farpage
