#pragma once

#include <cstdint>

#include "base/clock.h"

namespace farpage::sim {

// How the network treats what one host posts. Probabilities are in [0, 1] and are drawn once for
// each operation. Each step of an operation (bytes are taken, they land, they complete, close()
// flushes) takes a delay of its own.
struct SimOptions {
  uint64_t delay_min_ns = 1 * kMicrosecond;
  uint64_t delay_max_ns = 10 * kMicrosecond;

  // The completion never comes until close(). The bytes land in time, late or never, each in a
  // third of the cases. A write that does not land stops all writes behind it on its channel, as on
  // a reliable connection; reads go on.
  double loss = 0;
  uint64_t late_max_ns = kSecond;  // how much later than due they may land

  // Completes when it is done, neither waiting for what was posted before nor holding up what comes
  // after. Without it completions come in posting order. Writes always land in order.
  double reorder = 0;

  // Bytes are taken and land in up to four pieces, cut at 64-byte lines of the remote memory, in
  // any order and at different times.
  double tear = 0;

  // How long offloaded work of the host's runtime waits for its turn.
  uint64_t offload_min_ns = 0;
  uint64_t offload_max_ns = 0;

  // Refused by the device: ends as failed and breaks its channel.
  double fail = 0;
};

}  // namespace farpage::sim
