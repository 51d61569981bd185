#include "lab/paging/access_writer.h"

#include <fmt/format.h>

#include <boost/crc.hpp>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cerrno>
#include <utility>

#include "base/check.h"

namespace farpage::paging {
namespace {

using prefetch::Access;
using prefetch::Signal;

// Below what a block may have, so that its bytes stay within their bound whatever its columns.
constexpr uint32_t kBlockAccesses = 32 << 10;

void append_varint(std::string& to, uint64_t value) {
  for (; value >= 0x80; value >>= 7) to.push_back(static_cast<char>(value | 0x80));
  to.push_back(static_cast<char>(value));
}

template <typename T>
void append_bytes(std::string& to, T value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

uint64_t zigzag(int64_t value) {
  return static_cast<uint64_t>(value) << 1 ^ static_cast<uint64_t>(value >> 63);
}

std::string head_json(const AccessFileHeader& header) {
  boost::json::array columns;
  for (const Signal signal : header.columns) {
    columns.emplace_back(prefetch::kSignalNames[prefetch::index_of(signal)]);
  }
  boost::json::object head;
  head["name"] = header.name;
  head["synthetic"] = header.synthetic;
  head["layers"] = header.layout.layers;
  head["heads"] = header.layout.heads;
  head["columns"] = std::move(columns);
  return boost::json::serialize(head);
}

}  // namespace

Result<std::unique_ptr<AccessWriter>> AccessWriter::create(const std::string& path,
                                                           const AccessFileHeader& header) {
  errno = 0;
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  if (!file) return fail_errno(errno, "cannot write " + path);
  std::unique_ptr<AccessWriter> writer(new AccessWriter(path, std::move(file), header));
  writer->file_.write(kAccessMagic.data(), kAccessMagic.size());
  if (auto written = writer->write_framed(kAccessVersion, head_json(header)); !written) {
    return tl::unexpected(written.error());
  }
  return writer;
}

AccessWriter::AccessWriter(std::string path, std::ofstream file, const AccessFileHeader& header)
    : path_(std::move(path)),
      file_(std::move(file)),
      signals_(header.columns),
      has_heads_(header.layout.all() > 1),
      columns_(header.columns.size()) {}

Result<void> AccessWriter::add(const Access& access) {
  FARPAGE_CHECK(access.step >= step_ && access.page <= pages_);
  append_varint(steps_, access.step - step_);
  append_varint(page_numbers_, zigzag(static_cast<int64_t>(access.page - page_)));
  if (access.page == pages_) {
    ++pages_;
    if (has_heads_) append_varint(heads_, access.head);
  }
  step_ = access.step;
  page_ = access.page;
  for (size_t column = 0; column < signals_.size(); ++column) add_signal(column, access);
  ++accesses_;
  return ++count_ == kBlockAccesses ? end_block() : Result<void>();
}

void AccessWriter::add_signal(size_t column, const Access& access) {
  std::string& to = columns_[column];
  switch (signals_[column]) {
    case Signal::kMass:
      return append_bytes(to, access.mass);
    case Signal::kScore:
      return append_bytes(to, access.score);
    case Signal::kSimilarity:
      return append_bytes(to, access.similarity);
    case Signal::kCategory:
      return append_varint(to, access.category);
    case Signal::kEntropy:
      return append_bytes(to, access.entropy);
    case Signal::kMargin:
      return append_bytes(to, access.margin);
    case Signal::kMark:
      return append_varint(to, static_cast<uint64_t>(access.mark));
  }
}

Result<void> AccessWriter::end_block() {
  std::string payload = std::exchange(steps_, {});
  payload += std::exchange(page_numbers_, {});
  payload += std::exchange(heads_, {});
  for (std::string& column : columns_) payload += std::exchange(column, {});
  return write_framed(std::exchange(count_, 0), payload);
}

Result<void> AccessWriter::write_framed(uint32_t number, const std::string& bytes) {
  boost::crc_32_type crc;  // that of zlib
  crc.process_bytes(bytes.data(), bytes.size());
  std::string head;
  append_bytes(head, number);
  append_bytes(head, static_cast<uint32_t>(bytes.size()));
  append_bytes(head, static_cast<uint32_t>(crc.checksum()));
  errno = 0;
  file_.write(head.data(), static_cast<std::streamsize>(head.size()));
  file_.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!file_) return fail_errno(errno, "cannot write " + path_);
  return {};
}

Result<void> AccessWriter::finish() {
  if (count_ > 0) {
    if (auto ended = end_block(); !ended) return ended;
  }
  std::string total;
  append_bytes(total, accesses_);
  if (auto written = write_framed(0, total); !written) return written;
  errno = 0;
  file_.close();
  if (!file_) return fail_errno(errno, "cannot write " + path_);
  return {};
}

}  // namespace farpage::paging
