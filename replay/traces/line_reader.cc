#include "replay/traces/line_reader.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <simdjson.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/units.h"

namespace farpage {

Result<LineReader> LineReader::open(const std::string& path) {
  UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.valid()) return LineReader(path, std::move(file));
  return fail_errno(errno, fmt::format("cannot open the trace {}", path));
}

LineReader::LineReader(const std::string& path, UniqueFd file)
    : path_(path), file_(std::move(file)), buffer_(256 * kKiB, '\0') {}

Result<std::optional<std::string_view>> LineReader::next() {
  line_.clear();
  ++number_;
  while (true) {
    const auto part = std::string_view(buffer_).substr(begin_, end_ - begin_);
    const size_t newline = part.find('\n');
    line_.append(part.substr(0, newline));
    if (line_.size() > kMaxTraceLineBytes) {
      return fail(Code::kInvalid,
                  fmt::format("{}:{}: the line is longer than {}; is this a trace with "
                              "one request a line?",
                              path_, number_, format_bytes(kMaxTraceLineBytes)));
    }
    had_newline_ = newline != std::string_view::npos;
    if (had_newline_) {
      begin_ += newline + 1;
      return padded_line();
    }
    begin_ = 0;
    const ssize_t count = ::read(file_.get(), buffer_.data(), buffer_.size());
    end_ = count > 0 ? static_cast<size_t>(count) : 0;
    if (count < 0 && errno == EINTR) return fail(Code::kAborted, "interrupted");
    if (count < 0) return fail_errno(errno, fmt::format("cannot read the trace {}", path_));
    if (count == 0 && line_.empty()) return std::nullopt;
    if (count == 0) return padded_line();
  }
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
