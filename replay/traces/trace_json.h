#pragma once

#include <simdjson.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace farpage {

// Code that traces in JSON share. Errors say what stands there, and not where.

// Why a text is no JSON.
std::string describe(simdjson::error_code error);

// A whole number, however it is written (1536, 1536.0, 1.536e3), of what `unit` says.
Result<uint64_t> read_number(std::string_view name, simdjson::dom::element from, uint64_t most,
                             std::string_view unit = "");

// A time from 0 on, which may have a fraction.
Result<double> read_time(std::string_view name, simdjson::dom::element from, std::string_view unit);

// A producer's name for something, as 64 bits: those of a number, signed or not, or of a digest of
// a text.
Result<uint64_t> read_id(std::string_view name, simdjson::dom::element from);
uint64_t id_of_text(std::string_view text);

// The blocks of one request, at most kMaxRequestPages.
Result<std::vector<uint64_t>> read_hash_ids(simdjson::dom::element from);

}  // namespace farpage
