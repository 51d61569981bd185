#include "client/embedded/embedded_options.h"

#include <fmt/format.h>

#include <algorithm>

#include "pagetable/geometry.h"

namespace farpage {
namespace {

constexpr size_t kLongestName = 32;

bool is_name(const std::string& text) {
  return text.size() <= kLongestName && text.front() != '.' &&
         std::ranges::all_of(text, [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '-' || c == '_' || c == '.';
         });
}

}  // namespace

std::vector<ConfigField> fields(EmbeddedOptions& options) {
  return {{"name", &options.name},
          {"pool_bytes", &options.pool_bytes},
          {"page_bytes", &options.page_bytes}};
}

Result<void> EmbeddedOptions::validate() const {
  if (!name.empty() && !is_name(name)) {
    return fail(
        Code::kInvalid,
        fmt::format("embedded.name is '{}': choose at most {} letters, digits, '-', '_' and "
                    "'.', the first of them no dot",
                    name, kLongestName));
  }
  return make_geometry(page_bytes, pool_bytes, SlotLayout::kTogether)
      .map([](const Geometry&) {})
      .map_error([](const Error& error) {
        return Error{error.code, "the table [embedded]: " + error.message};
      });
}

}  // namespace farpage
