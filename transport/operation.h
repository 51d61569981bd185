#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"
#include "transport/memory.h"

namespace farpage {

enum class OperationKind : uint8_t { kRead, kWrite };

// Moves `remote_offset`, and on, of one remote region to or from up to two local slices, one after
// the other: a page's header to the one, its payload to the other. It completes once, however many
// transfers the backend makes of it. Only a write with an immediate may move no bytes.
struct Operation {
  OperationKind kind = OperationKind::kRead;
  uint8_t local_count = 0;
  bool wants_crc = false;  // of the last slice, as landed; only where checksums_landing
  bool has_immediate =
      false;  // writes: the target polls `immediate` once everything posted before is there
  bool alone =
      false;  // a read: never one transfer with another operation, whose fault it would share
  bool follows = false;  // not carried out where the one posted before it was refused or aborted:
                         // parts of one whole, of which the last one's immediate tells
  uint32_t immediate = 0;
  RemoteRegion remote;
  uint64_t tag = 0;  // comes back in the completion
  // A backend that moves bytes with the CPU looks at the clock before every chunk of at most 64 KiB
  // and ends what is left as aborted once this has passed. The others ignore it.
  uint64_t deadline_ns = kNever;
  uint64_t remote_offset = 0;
  std::array<Slice, 2> local;

  uint64_t bytes() const {
    return (local_count > 0 ? local[0].bytes : 0) + (local_count > 1 ? local[1].bytes : 0);
  }
};

enum class Outcome : uint8_t {
  kOk,
  kFailed,   // the device or the peer refused: access, bounds, a broken connection
  kAborted,  // ended by close(), by a broken channel or by its deadline
  kRefused,  // no more of it is begun, and never could be: a local slice is not of registered
             // memory, or of memory that this backend does not move
};

struct Completion {
  Outcome outcome = Outcome::kOk;
  uint32_t crc = 0;    // CRC-32C of the last slice, where the operation asked for it and ended kOk
  int32_t vendor = 0;  // the backend's code for a failure
  uint64_t tag = 0;    // the operation's
};

}  // namespace farpage
