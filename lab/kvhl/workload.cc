#include "lab/kvhl/workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <span>
#include <string_view>
#include <unordered_map>

#include "replay/text/line_reader.h"
#include "replay/text/whole_number.h"

namespace farpage::kvhl {
namespace {

constexpr std::string_view kTraceEnd = ".trace.csv";
constexpr std::string_view kTraceHeader = "step,page_id";
constexpr uint64_t kMaxPages = 10'000'000;
constexpr uint64_t kMaxPageBytes = uint64_t{1} << 40;

Result<std::vector<uint64_t>> numbers_in(std::string_view line, size_t columns) {
  std::vector<uint64_t> numbers;
  std::string_view rest = line;
  bool is_whole = false;
  while (const auto number = take_whole_number(rest)) {
    numbers.push_back(*number);
    is_whole = rest.empty();
    if (is_whole || !rest.starts_with(',')) break;
    rest.remove_prefix(1);
  }
  if (is_whole && numbers.size() == columns) return numbers;
  return fail(Code::kInvalid, fmt::format("'{:.80}' is not {} whole numbers with commas between "
                                          "them",
                                          line, columns));
}

// Each line below the header, as numbers.
Result<void> read_table(const std::string& path, std::string_view header,
                        const std::function<Result<void>(std::span<const uint64_t>)>& row) {
  auto lines = LineReader::open(path);
  if (!lines) return tl::unexpected(lines.error());
  const auto columns = static_cast<size_t>(std::ranges::count(header, ',')) + 1;
  while (true) {
    const auto line = lines->next();
    if (!line) return tl::unexpected(line.error());
    if (!*line) break;
    std::string_view text = **line;
    if (text.ends_with('\r')) text.remove_suffix(1);
    const bool is_header = lines->number() == 1;
    const auto read = [&]() -> Result<void> {
      if (is_header && text == header) return {};
      if (is_header) {
        return fail(Code::kInvalid, fmt::format("the first line is not '{}'", header));
      }
      if (!lines->had_newline()) {
        return fail(Code::kInvalid, "the file ends within a line: it was cut off, bring it again");
      }
      return numbers_in(text, columns).and_then(row);
    }();
    if (!read) {
      return fail(Code::kInvalid,
                  fmt::format("{}:{}: {}", path, lines->number(), read.error().message));
    }
  }
  if (lines->number() > 2) return {};
  return fail(Code::kInvalid, fmt::format("{}: there is nothing below the header", path));
}

Result<void> add_page(std::vector<uint64_t>& page_bytes, std::span<const uint64_t> row) {
  const uint64_t page = row[0];
  const uint64_t bytes = row[5];
  if (page != page_bytes.size() || page == kMaxPages) {
    return fail(Code::kInvalid,
                fmt::format("page {} stands where {} is expected", page, page_bytes.size()));
  }
  if (bytes == 0 || bytes > kMaxPageBytes) {
    return fail(Code::kInvalid, fmt::format("page {} has {} bytes", page, bytes));
  }
  page_bytes.push_back(bytes);
  return {};
}

Result<void> add_access(std::vector<prefetch::Access>& accesses, uint64_t step,
                        prefetch::PageNumber page) {
  if (!accesses.empty() && step < accesses.back().step) {
    return fail(Code::kInvalid, fmt::format("step {} comes after {}: steps do not go back", step,
                                            accesses.back().step));
  }
  accesses.push_back({accesses.size(), step, page});
  return {};
}

}  // namespace

Result<std::vector<std::string>> workloads_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string file = entry.path().filename();
    if (file.ends_with(kTraceEnd)) names.push_back(file.substr(0, file.size() - kTraceEnd.size()));
  }
  if (error) return fail_errno(error.value(), fmt::format("cannot read the folder {}", folder));
  if (names.empty()) {
    return fail(Code::kNotFound,
                fmt::format("{} has no workload of KV-Hierarchy-Lab: no file ends in {}", folder,
                            kTraceEnd));
  }
  std::ranges::sort(names);
  return names;
}

Result<Workload> read_workload(const std::string& folder, const std::string& name,
                               const std::string& quantisation) {
  Workload workload = {name, {}, {}};
  const auto add_to_pages = [&](std::span<const uint64_t> row) {
    return add_page(workload.page_bytes, row);
  };
  const auto add_to_trace = [&](std::span<const uint64_t> row) -> Result<void> {
    if (row[1] >= workload.page_bytes.size()) {
      return fail(Code::kInvalid, fmt::format("page {} is none of the {} pages", row[1],
                                              workload.page_bytes.size()));
    }
    return add_access(workload.accesses, row[0], static_cast<prefetch::PageNumber>(row[1]));
  };
  const auto read =
      read_table(fmt::format("{}/{}.{}.pages.csv", folder, name, quantisation),
                 "page_id,layer,head_group,token_start,token_end,size_bytes", add_to_pages)
          .and_then([&] {
            return read_table(fmt::format("{}/{}{}", folder, name, kTraceEnd), kTraceHeader,
                              add_to_trace);
          });
  if (!read) return tl::unexpected(read.error());
  return workload;
}

Result<std::vector<prefetch::Access>> read_accesses(const std::string& path) {
  std::vector<prefetch::Access> accesses;
  std::unordered_map<uint64_t, prefetch::PageNumber> numbers;
  const auto add = [&](std::span<const uint64_t> row) {
    const auto fresh = static_cast<prefetch::PageNumber>(numbers.size());
    return add_access(accesses, row[0], numbers.emplace(row[1], fresh).first->second);
  };
  return read_table(path, kTraceHeader, add).map([&] { return accesses; });
}

}  // namespace farpage::kvhl
