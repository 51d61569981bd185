#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace farpage::analyse {

// Which pages someone calls milestones: by page number.
using Milestones = std::vector<bool>;

// Of a CSV file with the header "page,label", and perhaps more columns, which are not read: pages
// in the order in which the trace first names them, from 0, and what they are. Those whose label is
// "milestone" are; a page has one label. A trace of so many pages. Errors name the line.
Result<Milestones> read_milestones(const std::string& path, uint64_t pages);

}  // namespace farpage::analyse
