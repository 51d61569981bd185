#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "base/status.h"

namespace farpage {

// A source of bytes, in order. On one thread.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual Result<size_t> read(std::span<char> into) = 0;  // 0 at the end
};

// The text in a file: unpacked where gzip has packed it, and without a byte order mark. A file that
// is no text is told for what it is, with kNotFound: what was named is elsewhere. Errors name the
// file.
class TextFile {
 public:
  static Result<TextFile> open(const std::string& path);

  Result<size_t> read(std::span<char> into);  // 0 at the end

 private:
  TextFile(std::string path, std::unique_ptr<ByteSource> bytes)
      : path_(std::move(path)), bytes_(std::move(bytes)) {}
  Result<void> begin();

  std::string path_;
  std::unique_ptr<ByteSource> bytes_;
  std::string head_;  // what begin() has read, of which
  size_t taken_ = 0;  // so much has been handed on
  bool begun_ = false;
};

}  // namespace farpage
