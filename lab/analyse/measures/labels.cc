#include "lab/analyse/measures/labels.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "replay/text/line_reader.h"
#include "replay/text/whole_number.h"

namespace farpage::analyse {
namespace {

constexpr std::string_view kHeader = "page,label";
constexpr std::string_view kMoreThanHeader = "page,label,";
constexpr std::string_view kMilestone = "milestone";

}  // namespace

Result<Milestones> read_milestones(const std::string& path, uint64_t pages) {
  auto lines = LineReader::open(path);
  if (!lines) return tl::unexpected(lines.error());
  Milestones milestones(pages);
  std::vector<bool> is_labelled(pages);
  ptrdiff_t columns = 0;  // beside the page
  while (true) {
    const auto next = lines->next();
    if (!next) return tl::unexpected(next.error());
    if (!*next) break;
    std::string_view line = **next;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (lines->number() == 1) {
      if (line != kHeader && !line.starts_with(kMoreThanHeader)) {
        return lines->refuse(fmt::format(
            "the first line of a file of labels is {}, and more columns may follow", kHeader));
      }
      columns = std::ranges::count(line, ',');
      continue;
    }
    if (line.empty()) continue;
    if (columns > 1 && std::ranges::count(line, ',') != columns) {
      return lines->refuse(fmt::format("a line has {} columns, as the first has", columns + 1));
    }
    const auto page = take_whole_number(line);
    const bool has_comma = line.starts_with(',');
    if (has_comma) line.remove_prefix(1);
    if (columns > 1) line = line.substr(0, line.find(','));
    if (!page || !has_comma || line.empty()) {
      return lines->refuse("a line is the number of a page, a comma, and its label");
    }
    if (*page >= pages) {
      return lines->refuse(
          fmt::format("page {}: the trace has {} pages, numbered from 0", *page, pages));
    }
    if (is_labelled[*page]) return lines->refuse(fmt::format("page {} has a label already", *page));
    is_labelled[*page] = true;
    milestones[*page] = line == kMilestone;
  }
  if (std::ranges::find(milestones, true) == milestones.end()) {
    return fail(Code::kInvalid, fmt::format("{}: no page has the label \"{}\"", path, kMilestone));
  }
  return milestones;
}

}  // namespace farpage::analyse
