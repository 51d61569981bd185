#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "replay/text/text_file.h"

namespace farpage {

inline constexpr uint64_t kMaxTraceLineBytes = uint64_t{16} << 20;

// A text file's lines, one after another, in memory for one line.
class LineReader {
 public:
  static Result<LineReader> open(const std::string& path,
                                 uint64_t max_line_bytes = kMaxTraceLineBytes);

  const std::string& path() const { return path_; }
  uint64_t number() const { return number_; }  // of the line read last, from 1

  // Nothing at the end of the file. The returned line has no newline, is followed by simdjson's
  // padding, and is valid until the next call.
  Result<std::optional<std::string_view>> next();
  // Whether the line read last had one. The file may have been cut off within one that had none.
  bool had_newline() const { return had_newline_; }
  // The line read last and all that follows it, at most as much as one line may have. Then the file
  // is at its end. Padded and valid as a line.
  Result<std::string_view> with_rest();

  // An error about the line read last.
  tl::unexpected<Error> refuse(const std::string& message) const;

 private:
  LineReader(const std::string& path, TextFile file, uint64_t max_line_bytes);
  std::string_view padded_line();
  Result<void> refill();

  std::string path_;
  TextFile file_;
  uint64_t max_line_bytes_;
  std::string buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
  std::string line_;
  uint64_t number_ = 0;
  bool had_newline_ = false;
};

}  // namespace farpage
