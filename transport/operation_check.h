#pragma once

#include "base/check.h"
#include "transport/local_registrations.h"
#include "transport/memory.h"
#include "transport/operation.h"

namespace farpage {

// Whether the local slices are of host memory that is registered now: otherwise the operation ends
// as refused.
inline bool may_begin(const Operation& operation, const LocalRegistrations& registrations) {
  for (int i = 0; i < operation.local_count; ++i) {
    const Slice& slice = operation.local[i];
    if (!slice.place.is_host() || !registrations.is_live(slice.local_key)) return false;
  }
  return true;
}

// Which operations are refused, in the order in which they were posted.
class Refusals {
 public:
  // `may`: whether its own slices let it begin.
  bool refuses(const Operation& operation, bool may) {
    last_ = !may || (operation.follows && last_);
    return last_;
  }

 private:
  bool last_ = false;
};

// That an operation keeps to the use that its region was imported for: a programmer's mistake
// otherwise. Debug builds alone look at each operation.
inline void check_use([[maybe_unused]] const Operation& operation,
                      [[maybe_unused]] const RegionUse& imported) {
#ifndef NDEBUG
  const uint64_t wanted = operation.bytes();
  const bool writes = operation.kind == OperationKind::kWrite;
  FARPAGE_CHECK(writes == (imported.access == Access::kRemoteWrite));
  FARPAGE_CHECK(writes || !operation.has_immediate);
  FARPAGE_CHECK(operation.local_count <= operation.local.size());
  FARPAGE_CHECK(wanted > 0 || operation.has_immediate);
  FARPAGE_CHECK(operation.remote_offset <= imported.bytes &&
                wanted <= imported.bytes - operation.remote_offset);
#endif
}

}  // namespace farpage
