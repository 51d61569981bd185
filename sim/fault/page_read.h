#pragma once

#include "transport/operation.h"

namespace farpage::fault {

// Bytes that a read brings into one slice, no more than this, are a page's header or a bucket of
// the index.
inline constexpr uint64_t kHeaderBytes = 64;

// A read of a page: its header to the one slice, its payload to the other. Or of its payload alone,
// where the node keeps headers elsewhere.
inline bool reads_payload(const Operation& operation) {
  if (operation.kind != OperationKind::kRead) return false;
  return operation.local_count == 2 || operation.bytes() > kHeaderBytes;
}

inline const Slice& payload_of(const Operation& read) {
  return read.local[read.local_count - 1];
}

}  // namespace farpage::fault
