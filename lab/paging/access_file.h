#pragma once

#include <string>

#include "base/status.h"
#include "lab/paging/access_trace.h"

namespace farpage::paging {

// An access trace in a file (docs/formats/access-trace.md), which is read once to the end to know
// that it is whole and what is in it. Its streams keep one block in memory, and four bytes for each
// page if there is more than one head. Errors name the file, and the block and its place in it.
Result<AccessTrace> open_access_file(const std::string& path);

}  // namespace farpage::paging
