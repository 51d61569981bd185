#include "chaos/report_parts.h"

#include <fmt/format.h>

#include <boost/json/object.hpp>
#include <numeric>

namespace farpage::chaos {

uint64_t sum_of(Counts counts) {
  return std::accumulate(counts.begin(), counts.end(), uint64_t{0});
}

boost::json::object counts_json(Names names, Counts counts) {
  boost::json::object json;
  for (size_t each = 0; each < names.size(); ++each) json[names[each]] = counts[each];
  return json;
}

std::string kind_rows(const KindTable& table) {
  const auto row = [&table](const auto& name, const auto& injected, const auto& noticed) {
    return fmt::format("{:<16} {:>{}} {:>{}}\n", name, injected, table.width, noticed, table.width);
  };
  std::string text = row("kind", "injected", table.noticed_name);
  for (size_t kind = 0; kind < table.names.size(); ++kind) {
    text += row(table.names[kind], table.injected[kind], table.noticed[kind]);
  }
  return text;
}

std::string finding_row(std::string_view name, uint64_t count) {
  return fmt::format("{:<22} {:>6}\n", name, count);
}

std::string finding_rows(Names names, Counts counts) {
  std::string text;
  for (size_t each = 0; each < names.size(); ++each) text += finding_row(names[each], counts[each]);
  return text;
}

std::string indented(std::span<const std::string> lines) {
  std::string text;
  for (const std::string& line : lines) text += "  " + line + '\n';
  return text;
}

}  // namespace farpage::chaos
