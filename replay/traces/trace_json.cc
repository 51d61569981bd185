#include "replay/traces/trace_json.h"

#include <fmt/format.h>

#include "replay/traces/trace.h"

namespace farpage {

using simdjson::dom::element;

Result<uint64_t> read_number(std::string_view name, element from, uint64_t most) {
  uint64_t number = 0;
  if (from.get_uint64().get(number) == simdjson::SUCCESS && number <= most) return number;
  return fail(Code::kInvalid, fmt::format("{} is {:.40}; it must be a whole number from 0 to {}",
                                          name, simdjson::minify(from), most));
}

Result<std::vector<uint64_t>> read_hash_ids(element from, uint64_t most) {
  simdjson::dom::array array;
  if (from.get_array().get(array) != simdjson::SUCCESS) {
    return fail(Code::kInvalid, "hash_ids is no array of numbers");
  }
  std::vector<uint64_t> ids;
  for (const element each : array) {
    if (ids.size() == kMaxRequestPages) {
      return fail(Code::kInvalid, fmt::format("hash_ids has more than {} ids", kMaxRequestPages));
    }
    const Result<uint64_t> id = read_number("an id in hash_ids", each, most);
    if (!id) return tl::unexpected(id.error());
    ids.push_back(*id);
  }
  return ids;
}

}  // namespace farpage
