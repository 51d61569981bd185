#include "replay/text/text_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <utility>

#include "base/unique_fd.h"
#include "replay/text/file_kind.h"
#include "replay/text/gunzip.h"

namespace farpage {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

class FileBytes final : public ByteSource {
 public:
  FileBytes(std::string path, UniqueFd file) : path_(std::move(path)), file_(std::move(file)) {}

  Result<size_t> read(std::span<char> into) override {
    const ssize_t count = ::read(file_.get(), into.data(), into.size());
    if (count >= 0) return static_cast<size_t>(count);
    if (errno == EINTR) return fail(Code::kAborted, "interrupted");
    return fail_errno(errno, fmt::format("cannot read the trace {}", path_));
  }

 private:
  std::string path_;
  UniqueFd file_;
};

// As many bytes as tell what a file is, or all of them.
Result<std::string> read_head(ByteSource& bytes) {
  std::string head(kKindBytes, '\0');
  size_t filled = 0;
  while (filled < head.size()) {
    const auto count = bytes.read(std::span(head).subspan(filled));
    if (!count) return tl::unexpected(count.error());
    if (*count == 0) break;
    filled += *count;
  }
  head.resize(filled);
  return head;
}

}  // namespace

Result<TextFile> TextFile::open(const std::string& path) {
  UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return fail_errno(errno, fmt::format("cannot open the trace {}", path));
  return TextFile(path, std::make_unique<FileBytes>(path, std::move(file)));
}

Result<void> TextFile::begin() {
  auto head = read_head(*bytes_);
  if (!head) return tl::unexpected(head.error());
  const bool is_packed = is_gzip(*head);
  if (is_packed) {
    bytes_ = std::make_unique<Gunzip>(path_, std::move(bytes_), std::move(*head));
    head = read_head(*bytes_);
    if (!head) return tl::unexpected(head.error());
  }
  if (const auto kind = unlike_text(*head)) {
    return fail(
        Code::kNotFound,
        fmt::format("{} {}", path_,
                    is_packed ? "is packed with gzip, and what comes out " + *kind : *kind));
  }
  head_ = std::move(*head);
  if (head_.starts_with(kByteOrderMark)) taken_ = kByteOrderMark.size();
  begun_ = true;
  return {};
}

Result<size_t> TextFile::read(std::span<char> into) {
  if (!begun_) {
    if (auto begun = begin(); !begun) return tl::unexpected(begun.error());
  }
  if (taken_ == head_.size()) return bytes_->read(into);
  const size_t count = std::min(head_.size() - taken_, into.size());
  std::copy_n(head_.begin() + static_cast<ptrdiff_t>(taken_), count, into.begin());
  taken_ += count;
  return count;
}

}  // namespace farpage
