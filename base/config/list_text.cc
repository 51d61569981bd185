#include "base/config/list_text.h"

#include <fmt/format.h>

#include <algorithm>

namespace farpage {
namespace {

constexpr std::string_view kSpace = " \t\r\n";
constexpr std::string_view kOtherSeparators = "; \t\r\n";

std::string_view trim(std::string_view text) {
  const size_t begin = std::min(text.find_first_not_of(kSpace), text.size());
  const size_t end = text.find_last_not_of(kSpace) + 1;  // npos + 1 is 0
  return text.substr(begin, std::max(begin, end) - begin);
}

bool is_several(std::string_view entry, ListOf kind) {
  const size_t separator = entry.find_first_of(kOtherSeparators);
  if (separator == std::string_view::npos) return false;
  return kind == ListOf::kWords || entry.find('=', separator) != std::string_view::npos;
}

}  // namespace

Result<std::vector<std::string>> split_list(const std::string& setting, std::string_view text,
                                            ListOf kind) {
  std::vector<std::string> entries;
  for (std::string_view rest = trim(text); !rest.empty();) {
    const size_t end = std::min(rest.find(','), rest.size());
    const std::string_view entry = trim(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (is_several(entry, kind)) {
      return fail(
          Code::kInvalid,
          fmt::format(
              "{}: '{}' is not a single entry: separate entries by commas, and by nothing else",
              setting, entry));
    }
    entries.emplace_back(entry);
  }
  return entries;
}

}  // namespace farpage
