#pragma once

#include <cstdint>

#include "base/status.h"
#include "transport/host_memory.h"
#include "transport/local_registrations.h"
#include "transport/memory.h"
#include "transport/operation.h"

namespace farpage {

// What a channel looks at before it takes an operation on a region that it has imported.
inline Status check_operation(const Operation& operation, uint64_t bytes, uint32_t generation,
                              Access access) {
  const auto refuse = [](const char* why) { return Status{Code::kInvalid, 0, why}; };
  if (generation != operation.remote.generation) return refuse("the import is outdated");
  if (operation.kind == OperationKind::kRead && operation.has_immediate) {
    return refuse("a read has an immediate");
  }
  if (operation.local_count > operation.local.size()) return refuse("too many local slices");
  if (const Status status = require_host_memory(operation); !status.ok()) return status;
  const uint64_t wanted = operation.bytes();
  if (wanted == 0 && !operation.has_immediate) return refuse("it moves no bytes");
  if (operation.remote_offset > bytes || wanted > bytes - operation.remote_offset) {
    return refuse("beyond the end of the region");
  }
  const bool writes = operation.kind == OperationKind::kWrite;
  if (writes != (access == Access::kRemoteWrite)) {
    return Status{Code::kDenied, 0, "the region does not permit this"};
  }
  return {};
}

inline bool local_is_live(const Operation& operation, const LocalRegistrations& registrations) {
  for (int i = 0; i < operation.local_count; ++i) {
    if (!registrations.is_live(operation.local[i].local_key)) return false;
  }
  return true;
}

}  // namespace farpage
