#pragma once

#include <cstdint>

#include "base/memory/mapping.h"
#include "base/status.h"

namespace farpage {

// An error that says so if this process may not take `bytes` of memory now; `pool_bytes` is what
// the user asked for.
Result<void> check_memory(uint64_t bytes, uint64_t pool_bytes);

// Takes all of a mapping's memory, in huge pages where the kernel has them, step by step, so that a
// limit is met as an error and not as a kill.
Result<void> populate(const Mapping& mapping, uint64_t pool_bytes);

}  // namespace farpage
