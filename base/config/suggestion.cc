#include "base/config/suggestion.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace farpage {
namespace {

// Levenshtein's distance, one row at a time.
size_t edit_distance(std::string_view from, std::string_view to) {
  std::vector<size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < from.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < to.size(); ++j) {
      const size_t replaced = diagonal + (from[i] == to[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string suggestion(std::string_view unknown, const std::vector<std::string>& known) {
  std::string_view nearest;
  size_t least = std::max<size_t>(2, unknown.size() / 3) + 1;
  for (const std::string& name : known) {
    const size_t distance = edit_distance(unknown, name);
    if (distance >= least || distance >= std::min(name.size(), unknown.size())) continue;
    least = distance;
    nearest = name;
  }
  return nearest.empty() ? std::string() : fmt::format("; did you mean '{}'?", nearest);
}

}  // namespace farpage
