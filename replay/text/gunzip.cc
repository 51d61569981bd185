#include "replay/text/gunzip.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/units.h"

namespace farpage {
namespace {

constexpr int kGzipOfAnyWindow = 16 + MAX_WBITS;

}  // namespace

struct Gunzip::Stream {
  Stream() { FARPAGE_CHECK(::inflateInit2(&z, kGzipOfAnyWindow) == Z_OK); }
  ~Stream() { ::inflateEnd(&z); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  z_stream z = {};
};

Gunzip::Gunzip(std::string path, std::unique_ptr<ByteSource> packed, std::string head)
    : path_(std::move(path)),
      packed_(std::move(packed)),
      buffer_(std::move(head)),
      end_(buffer_.size()),
      stream_(std::make_unique<Stream>()) {
  packed_bytes_ = end_;
  buffer_.resize(std::max<size_t>(end_, 64 * kKiB));
}

Gunzip::~Gunzip() = default;

tl::unexpected<Error> Gunzip::refuse(const std::string& why) const {
  return fail(Code::kInvalid, fmt::format("{}: {}", path_, why));
}

Result<void> Gunzip::refill() {
  if (begin_ < end_) return {};
  const auto count = packed_->read(buffer_);
  if (!count) return tl::unexpected(count.error());
  begin_ = 0;
  end_ = *count;
  packed_bytes_ += *count;
  return {};
}

// Another member may follow, or zeros up to the end.
Result<bool> Gunzip::begin_next_member() {
  while (true) {
    if (auto filled = refill(); !filled) return tl::unexpected(filled.error());
    if (begin_ == end_) return false;
    if (buffer_[begin_] != '\0') break;
    ++begin_;
  }
  if (static_cast<unsigned char>(buffer_[begin_]) != 0x1f) {
    return refuse(fmt::format("something that gzip did not pack follows what it packed, at byte {}",
                              packed_bytes_ - (end_ - begin_)));
  }
  FARPAGE_CHECK(::inflateReset(&stream_->z) == Z_OK);
  in_member_ = true;
  return true;
}

Result<size_t> Gunzip::read(std::span<char> into) {
  z_stream& z = stream_->z;
  z.next_out = reinterpret_cast<Bytef*>(into.data());
  const size_t most = std::min<size_t>(into.size(), std::numeric_limits<uInt>::max());
  z.avail_out = static_cast<uInt>(most);
  while (z.avail_out == most) {
    if (!in_member_) {
      const auto next = begin_next_member();
      if (!next) return tl::unexpected(next.error());
      if (!*next) return 0;
    }
    if (auto filled = refill(); !filled) return tl::unexpected(filled.error());
    if (begin_ == end_) {
      return refuse("it is packed with gzip and ends too early: it was cut off, bring it again");
    }
    z.next_in = reinterpret_cast<Bytef*>(buffer_.data() + begin_);
    z.avail_in = static_cast<uInt>(end_ - begin_);
    const int result = ::inflate(&z, Z_NO_FLUSH);
    begin_ = end_ - z.avail_in;
    if (result == Z_MEM_ERROR) return fail(Code::kExhausted, "no memory is left to unpack a file");
    if (result == Z_STREAM_END) {
      in_member_ = false;
    } else if (result != Z_OK) {
      return refuse(fmt::format("it is packed with gzip and damaged ({}): bring it again",
                                z.msg != nullptr ? z.msg : "no gzip data"));
    }
  }
  const size_t written = most - z.avail_out;
  unpacked_bytes_ += written;
  if (unpacked_bytes_ > kUnpackedUnjudgedBytes &&
      unpacked_bytes_ / kMostUnpackedTimes > packed_bytes_) {
    return refuse(
        fmt::format("{} bytes of gzip have become more than {}, and no trace repeats "
                    "itself so much: unpack it (gunzip) and look at it",
                    packed_bytes_, format_bytes(kUnpackedUnjudgedBytes)));
  }
  return written;
}

}  // namespace farpage
