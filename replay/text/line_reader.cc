#include "replay/text/line_reader.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <utility>

#include "base/units.h"

namespace farpage {

Result<LineReader> LineReader::open(const std::string& path, uint64_t max_line_bytes) {
  return TextFile::open(path).map(
      [&](TextFile file) { return LineReader(path, std::move(file), max_line_bytes); });
}

LineReader::LineReader(const std::string& path, TextFile file, uint64_t max_line_bytes)
    : path_(path),
      file_(std::move(file)),
      max_line_bytes_(max_line_bytes),
      buffer_(256 * kKiB, '\0') {}

Result<void> LineReader::refill() {
  begin_ = 0;
  end_ = 0;
  const auto count = file_.read(buffer_);
  if (!count) return tl::unexpected(count.error());
  end_ = *count;
  return {};
}

Result<std::optional<std::string_view>> LineReader::next() {
  line_.clear();
  ++number_;
  while (true) {
    const auto part = std::string_view(buffer_).substr(begin_, end_ - begin_);
    const size_t newline = part.find('\n');
    line_.append(part.substr(0, newline));
    if (line_.size() > max_line_bytes_) {
      return fail(Code::kInvalid,
                  fmt::format("{}:{}: the line is longer than {}; is this a trace with "
                              "one request a line?",
                              path_, number_, format_bytes(max_line_bytes_)));
    }
    had_newline_ = newline != std::string_view::npos;
    if (had_newline_) {
      begin_ += newline + 1;
      return padded_line();
    }
    if (auto filled = refill(); !filled) return tl::unexpected(filled.error());
    if (end_ == 0 && line_.empty()) return std::nullopt;
    if (end_ == 0) return padded_line();
  }
}

Result<std::string_view> LineReader::with_rest() {
  if (had_newline_) line_ += '\n';
  do {
    line_.append(std::string_view(buffer_).substr(begin_, end_ - begin_));
    if (line_.size() > max_line_bytes_) {
      return fail(Code::kInvalid, fmt::format("{}: it is longer than {}, too long for one document",
                                              path_, format_bytes(max_line_bytes_)));
    }
    if (auto filled = refill(); !filled) return tl::unexpected(filled.error());
  } while (end_ > 0);
  return padded_line();
}

tl::unexpected<Error> LineReader::refuse(const std::string& message) const {
  return fail(Code::kInvalid,
              fmt::format("{}:{}: {}: mend or remove the line", path_, number_, message));
}

std::string_view LineReader::padded_line() {
  line_.reserve(line_.size() + simdjson::SIMDJSON_PADDING);
  return line_;
}

}  // namespace farpage
