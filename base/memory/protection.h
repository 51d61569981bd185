#pragma once

#include <cstdint>
#include <string_view>

#include "base/memory/mapping.h"
#include "base/status.h"

namespace farpage {

// What this process may do with all of these bytes now. Touches none of them, and costs a few
// microseconds where the kernel answers for one area (Linux 6.11), elsewhere about one for each
// area that the process has mapped. kInvalid: some are not mapped, or may not be read. Where
// nothing tells, because there is no /proc, they are kReadWrite.
Result<Protection> protection_of(const void* data, uint64_t bytes);

// The same by the text of /proc/PID/maps.
Result<Protection> protection_in(std::string_view maps, uintptr_t begin, uint64_t bytes);

}  // namespace farpage
