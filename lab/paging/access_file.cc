#include "lab/paging/access_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/crc.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "lab/paging/access_block.h"
#include "replay/text/file_kind.h"

namespace farpage::paging {
namespace {

using prefetch::Access;

constexpr uint32_t kMaxHeaderBytes = 64 << 10;
constexpr uint32_t kMaxBlockAccesses = 64 << 10;
constexpr uint32_t kMaxBlockBytes = 4 << 20;

// In front of the header, and of each block: a number, the bytes that follow, and their CRC-32.
struct Head {
  uint32_t number;
  uint32_t bytes;
  uint32_t crc;
};
static_assert(sizeof(Head) == 12);

uint32_t crc32_of(std::string_view bytes) {
  boost::crc_32_type crc;  // that of zlib
  crc.process_bytes(bytes.data(), bytes.size());
  return crc.checksum();
}

// The counts of a trace at its first reading.
struct Known {
  uint64_t pages = UINT64_MAX;
  uint64_t accesses = UINT64_MAX;
};

class FileStream final : public AccessStream {
 public:
  static Result<std::unique_ptr<FileStream>> open(const std::string& path, Known known);

  Result<size_t> read(std::span<Access> accesses) override;
  const BlockDecoder& decoder() const { return decoder_; }

 private:
  FileStream(std::string path, std::ifstream file, AccessFileHeader header, Known known)
      : path_(std::move(path)),
        file_(std::move(file)),
        decoder_(std::move(header)),
        known_(known) {}

  // Decodes the next block that has accesses, or finds the end.
  Result<void> next_block();
  Result<void> end(std::string_view payload);
  tl::unexpected<Error> fail_block(uint64_t at, const std::string& why) const {
    return fail(Code::kInvalid,
                fmt::format("{}: block {}, at byte {}: {}", path_, blocks_, at, why));
  }

  std::string path_;
  std::ifstream file_;
  BlockDecoder decoder_;
  Known known_;
  std::string payload_;
  std::vector<Access> block_;
  size_t taken_ = 0;  // of block_
  uint64_t blocks_ = 0;
  bool ended_ = false;
};

// False: the file ends before them.
bool read_bytes(std::ifstream& file, char* bytes, size_t count) {
  file.read(bytes, static_cast<std::streamsize>(count));
  return static_cast<size_t>(file.gcount()) == count;
}

// The kind of a file that is not an access trace, where it can be told.
std::optional<std::string> other_kind(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string head(kKindBytes, '\0');
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<size_t>(file.gcount()));
  return known_kind(head);
}

Result<std::unique_ptr<FileStream>> FileStream::open(const std::string& path, Known known) {
  const auto refuse = [&](const std::string& why) {
    return fail(Code::kInvalid, fmt::format("{}: {}", path, why));
  };
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    return refuse(error ? error.message() : "an access trace is a file, as it is read twice");
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) return refuse("it cannot be opened");
  std::string magic(kAccessMagic.size(), '\0');
  Head head = {};
  if (!read_bytes(file, magic.data(), magic.size()) || magic != kAccessMagic) {
    if (const auto kind = other_kind(path)) {
      return fail(Code::kNotFound, fmt::format("{} {}", path, *kind));
    }
    return refuse(
        "this is no access trace (docs/formats/access-trace.md); traces of requests are read with "
        "--format mooncake or agent");
  }
  if (!read_bytes(file, reinterpret_cast<char*>(&head), sizeof head)) {
    return refuse("it ends within its head");
  }
  if (head.number != kAccessVersion) {
    return refuse(fmt::format("it is of version {} of the format, and version {} is known here",
                              head.number, kAccessVersion));
  }
  if (head.bytes > kMaxHeaderBytes) {
    return refuse(fmt::format("its head is longer than {} bytes", kMaxHeaderBytes));
  }
  std::string json(head.bytes, '\0');
  if (!read_bytes(file, json.data(), json.size())) return refuse("it ends within its head");
  if (crc32_of(json) != head.crc) return refuse("its head is damaged: its CRC-32 differs");
  auto header = parse_access_header(json);
  if (!header) return refuse(header.error().message);
  return std::unique_ptr<FileStream>(
      new FileStream(path, std::move(file), std::move(*header), known));
}

Result<size_t> FileStream::read(std::span<Access> accesses) {
  while (taken_ == block_.size() && !ended_) {
    if (auto next = next_block(); !next) return tl::unexpected(next.error());
  }
  const size_t count = std::min(block_.size() - taken_, accesses.size());
  std::copy_n(block_.begin() + static_cast<ptrdiff_t>(taken_), count, accesses.begin());
  taken_ += count;
  return count;
}

Result<void> FileStream::next_block() {
  const auto at = static_cast<uint64_t>(file_.tellg());
  ++blocks_;
  Head head = {};
  if (!read_bytes(file_, reinterpret_cast<char*>(&head), sizeof head)) {
    return fail_block(at,
                      "the file ends without its last block: it was cut off, or its writer "
                      "it did not close it");
  }
  if (head.number > kMaxBlockAccesses || head.bytes > kMaxBlockBytes) {
    return fail_block(at, fmt::format("{} accesses in {} bytes: at most {} are in a block, in {}",
                                      head.number, head.bytes, kMaxBlockAccesses, kMaxBlockBytes));
  }
  payload_.resize(head.bytes);
  if (!read_bytes(file_, payload_.data(), payload_.size())) {
    return fail_block(at, "the file ends within it: it was cut off");
  }
  if (crc32_of(payload_) != head.crc) return fail_block(at, "it is damaged: its CRC-32 differs");
  block_.clear();
  taken_ = 0;
  auto decoded = head.number == 0 ? end(payload_) : decoder_.decode(payload_, head.number, block_);
  if (!decoded) return fail_block(at, decoded.error().message);
  if (decoder_.pages() > known_.pages || decoder_.accesses() > known_.accesses) {
    return fail_block(at, "the file has changed since it was read first");
  }
  return {};
}

// The last block, which has no accesses, says how many there were in all.
Result<void> FileStream::end(std::string_view payload) {
  uint64_t accesses = 0;
  if (payload.size() != sizeof accesses) return fail(Code::kInvalid, "a last block has 8 bytes");
  std::memcpy(&accesses, payload.data(), sizeof accesses);
  if (accesses != decoder_.accesses()) {
    return fail(Code::kInvalid, fmt::format("{} accesses came before it, where it says {}",
                                            decoder_.accesses(), accesses));
  }
  if (file_.peek() != std::ifstream::traits_type::eof()) {
    return fail(Code::kInvalid, "something follows it, which is the last");
  }
  ended_ = true;
  return {};
}

}  // namespace

Result<AccessTrace> open_access_file(const std::string& path) {
  auto stream = FileStream::open(path, Known());
  if (!stream) return tl::unexpected(stream.error());
  AccessTrace trace;
  std::vector<Access> some(kMaxBlockAccesses);
  while (true) {
    const auto read = (*stream)->read(some);
    if (!read) return tl::unexpected(read.error());
    if (*read == 0) break;
    trace.accesses += *read;
  }
  const BlockDecoder& decoder = (*stream)->decoder();
  trace.name = decoder.header().name;
  trace.synthetic = decoder.header().synthetic;
  trace.pages = decoder.pages();
  trace.layout = decoder.header().layout;
  for (const prefetch::Signal column : decoder.header().columns) {
    trace.signals.set(prefetch::index_of(column));
  }
  for (size_t i = 0; i < kLeftOutReasons.size(); ++i) {
    if (decoder.left_out()[i] == 0) continue;
    trace.skipped.push_back({std::string(kLeftOutReasons[i]), decoder.left_out()[i]});
  }
  trace.open = [path, known = Known{decoder.pages(), decoder.accesses()}] {
    return FileStream::open(path, known).map([](auto opened) -> std::unique_ptr<AccessStream> {
      return opened;
    });
  };
  return trace;
}

}  // namespace farpage::paging
