#pragma once

#include <simdjson.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace farpage {

// What traces in JSON have in common. Errors say what stands there, and not where.

Result<uint64_t> read_number(std::string_view name, simdjson::dom::element from, uint64_t most);

// The blocks of one request, at most kMaxRequestPages, each at most `most`.
Result<std::vector<uint64_t>> read_hash_ids(simdjson::dom::element from, uint64_t most);

}  // namespace farpage
