#include "replay/traces/trace_json.h"

#include <fmt/format.h>

#include "integrity/page_key.h"
#include "replay/text/whole_number.h"
#include "replay/traces/trace.h"

namespace farpage {

using simdjson::dom::element;

namespace {

constexpr double kMostTime = 1e18;

tl::unexpected<Error> refuse(std::string_view name, element from, std::string_view must_be) {
  return fail(Code::kInvalid,
              fmt::format("{} is {:.40}; it must be {}", name, simdjson::minify(from), must_be));
}

}  // namespace

std::string describe(simdjson::error_code error) {
  std::string text = simdjson::error_message(error);
  if (error == simdjson::NUMBER_ERROR) {
    text += " (one of more than 64 bits, or none; longer ids are written as text)";
  }
  return text;
}

Result<uint64_t> read_number(std::string_view name, element from, uint64_t most,
                             std::string_view unit) {
  uint64_t number = 0;
  double other = 0;
  bool is_whole = from.get_uint64().get(number) == simdjson::SUCCESS;
  if (!is_whole && from.is_double() && from.get_double().get(other) == simdjson::SUCCESS) {
    const auto exact = whole_of(other);
    is_whole = exact.has_value() && *exact >= 0;
    if (is_whole) number = static_cast<uint64_t>(*exact);
  }
  if (is_whole && number <= most) return number;
  return refuse(
      name, from,
      fmt::format("a whole number{}{} from 0 to {}", unit.empty() ? "" : " of ", unit, most));
}

Result<double> read_time(std::string_view name, element from, std::string_view unit) {
  double time = -1;
  if (from.get_double().get(time) == simdjson::SUCCESS && time >= 0 && time <= kMostTime) {
    return time;
  }
  return refuse(name, from, fmt::format("a number of {} from 0 on", unit));
}

uint64_t id_of_text(std::string_view text) {
  return make_page_key("id", text).low;
}

Result<uint64_t> read_id(std::string_view name, element from) {
  uint64_t number = 0;
  if (from.get_uint64().get(number) == simdjson::SUCCESS) return number;
  int64_t negative = 0;
  if (from.get_int64().get(negative) == simdjson::SUCCESS) return static_cast<uint64_t>(negative);
  std::string_view text;
  if (from.get_string().get(text) == simdjson::SUCCESS) return id_of_text(text);
  double other = 0;
  if (from.is_double() && from.get_double().get(other) == simdjson::SUCCESS) {
    if (const auto exact = whole_of(other)) return static_cast<uint64_t>(*exact);
  }
  return refuse(name, from, "a whole number of at most 64 bits, exactly written, or a text");
}

Result<std::vector<uint64_t>> read_hash_ids(element from) {
  simdjson::dom::array array;
  if (from.get_array().get(array) != simdjson::SUCCESS) {
    return fail(Code::kInvalid, "hash_ids is no array of ids");
  }
  std::vector<uint64_t> ids;
  for (const element each : array) {
    if (ids.size() == kMaxRequestPages) {
      return fail(Code::kInvalid, fmt::format("hash_ids has more than {} ids", kMaxRequestPages));
    }
    const Result<uint64_t> id = read_id("an id in hash_ids", each);
    if (!id) return tl::unexpected(id.error());
    ids.push_back(*id);
  }
  return ids;
}

}  // namespace farpage
