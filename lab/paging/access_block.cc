#include "lab/paging/access_block.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <cctype>
#include <cmath>
#include <cstring>
#include <limits>

namespace farpage::paging {
namespace {

using prefetch::Access;
using prefetch::Signal;

static_assert(std::endian::native == std::endian::little);

constexpr uint64_t kMostHeads = uint64_t{1} << 24;
constexpr float kMostMass = 1.001F;  // an engine that adds up shares may round
constexpr uint64_t kMostBlockPages = std::numeric_limits<prefetch::PageNumber>::max();

// The number of `key` from 1 to kMostHeads, or 1 where it is not there; 0: neither.
uint64_t read_count(const boost::json::object& header, std::string_view key) {
  const boost::json::value* value = header.if_contains(key);
  if (value == nullptr) return 1;
  const int64_t* count = value->if_int64();
  return count != nullptr && *count > 0 ? std::min<uint64_t>(*count, kMostHeads + 1) : 0;
}

bool is_from_zero(float value) {
  return std::isfinite(value) && value >= 0;
}

int64_t unzigzag(uint64_t value) {
  return static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1);
}

}  // namespace

Result<AccessFileHeader> parse_access_header(std::string_view json) {
  boost::system::error_code error;
  const boost::json::value parsed = boost::json::parse(json, error);
  const boost::json::object* object = error ? nullptr : parsed.if_object();
  if (object == nullptr) return fail(Code::kInvalid, "its head is no JSON object");
  AccessFileHeader header;
  if (const auto* name = object->if_contains("name"); name != nullptr && name->is_string()) {
    header.name = name->get_string();
    // It is printed, and a terminal would take them for its own.
    std::ranges::replace_if(
        header.name, [](unsigned char c) { return std::iscntrl(c) != 0; }, ' ');
  }
  const auto* synthetic = object->if_contains("synthetic");
  if (synthetic == nullptr || !synthetic->is_bool()) {
    return fail(Code::kInvalid, "its head does not say whether it is \"synthetic\": true or false");
  }
  header.synthetic = synthetic->get_bool();
  const uint64_t layers = read_count(*object, "layers");
  const uint64_t heads = read_count(*object, "heads");
  if (layers * heads == 0 || layers * heads > kMostHeads) {
    return fail(Code::kInvalid,
                fmt::format("\"layers\" and \"heads\" in its head are numbers from 1, whose "
                            "product is at most {}",
                            kMostHeads));
  }
  header.layout = {static_cast<uint32_t>(layers), static_cast<uint32_t>(heads)};
  const auto* columns = object->if_contains("columns");
  if (columns == nullptr || !columns->is_array()) {
    return fail(Code::kInvalid, "its head has no list of \"columns\"");
  }
  for (const boost::json::value& column : columns->get_array()) {
    const std::string_view name = column.is_string() ? column.get_string() : std::string_view();
    const auto* const known = std::ranges::find(prefetch::kSignalNames, name);
    const auto signal = static_cast<Signal>(known - prefetch::kSignalNames.begin());
    if (known == prefetch::kSignalNames.end() ||
        std::ranges::find(header.columns, signal) != header.columns.end()) {
      return fail(Code::kInvalid, fmt::format("its \"columns\" are some of {}, each once",
                                              fmt::join(prefetch::kSignalNames, ", ")));
    }
    header.columns.push_back(signal);
  }
  return header;
}

// The rest of a payload.
class BlockDecoder::Cursor {
 public:
  explicit Cursor(std::string_view bytes) : bytes_(bytes) {}

  bool ended() const { return bytes_.empty(); }
  // LEB128. False: it does not end, or is longer than 64 bits.
  bool read_varint(uint64_t& value) {
    value = 0;
    for (unsigned shift = 0; shift < 64 && !bytes_.empty(); shift += 7) {
      const auto byte = static_cast<uint8_t>(bytes_.front());
      bytes_.remove_prefix(1);
      if (shift == 63 && byte > 1) return false;
      value |= uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return true;
    }
    return false;
  }
  bool read_float(float& value) {
    if (bytes_.size() < sizeof value) return false;
    std::memcpy(&value, bytes_.data(), sizeof value);
    bytes_.remove_prefix(sizeof value);
    return true;
  }

 private:
  std::string_view bytes_;
};

Result<void> BlockDecoder::decode(std::string_view payload, uint32_t accesses,
                                  std::vector<Access>& to) {
  Cursor cursor(payload);
  const size_t before = to.size();
  to.resize(before + accesses);
  const auto block = std::span(to).subspan(before);
  for (Access& access : block) {
    uint64_t steps = 0;
    if (!cursor.read_varint(steps)) return fail(Code::kInvalid, "its steps are cut off");
    if (steps > UINT64_MAX - step_) return fail(Code::kInvalid, "its steps pass 64 bits");
    step_ += steps;
    access.step = step_;
  }
  if (auto decoded = decode_pages(cursor, block); !decoded) return decoded;
  for (const Signal column : header_.columns) {
    if (auto decoded = decode_column(cursor, column, block); !decoded) return decoded;
  }
  if (!cursor.ended()) return fail(Code::kInvalid, "something follows its last column");
  accesses_ += accesses;
  to.erase(std::remove_if(to.begin() + static_cast<ptrdiff_t>(before), to.end(),
                          [this](const Access& access) { return is_left_out(access); }),
           to.end());
  for (Access& access : std::span(to).subspan(before)) access.number = numbered_++;
  return {};
}

Result<void> BlockDecoder::decode_pages(Cursor& cursor, std::span<Access> accesses) {
  const uint64_t first_new = pages_;
  for (Access& access : accesses) {
    uint64_t delta = 0;
    if (!cursor.read_varint(delta)) return fail(Code::kInvalid, "its pages are cut off");
    page_ += static_cast<uint64_t>(unzigzag(delta));
    if (page_ > pages_ || page_ >= kMostBlockPages) {
      return fail(Code::kInvalid, fmt::format("it names page {} where {} pages have been named: "
                                              "pages are numbered as they are first named",
                                              page_, pages_));
    }
    if (page_ == pages_) ++pages_;
    access.page = static_cast<prefetch::PageNumber>(page_);
  }
  return header_.layout.all() > 1 ? decode_heads(cursor, accesses, first_new) : Result<void>();
}

Result<void> BlockDecoder::decode_heads(Cursor& cursor, std::span<Access> accesses,
                                        uint64_t first_new) {
  for (uint64_t page = first_new; page < pages_; ++page) {
    uint64_t head = 0;
    if (!cursor.read_varint(head)) return fail(Code::kInvalid, "its heads are cut off");
    heads_.push_back(static_cast<uint32_t>(std::min<uint64_t>(head, header_.layout.all())));
  }
  for (Access& access : accesses) access.head = heads_[access.page];
  return {};
}

Result<void> BlockDecoder::decode_column(Cursor& cursor, Signal column,
                                         std::span<Access> accesses) {
  for (Access& access : accesses) {
    uint64_t category = 0;
    uint64_t mark = 0;
    bool whole = false;
    switch (column) {
      case Signal::kMass:
        whole = cursor.read_float(access.mass);
        break;
      case Signal::kScore:
        whole = cursor.read_float(access.score);
        break;
      case Signal::kSimilarity:
        whole = cursor.read_float(access.similarity);
        break;
      case Signal::kCategory:
        whole = cursor.read_varint(category) && category <= UINT32_MAX;
        access.category = static_cast<uint32_t>(category);
        break;
      case Signal::kEntropy:
        whole = cursor.read_float(access.entropy);
        break;
      case Signal::kMargin:
        whole = cursor.read_float(access.margin);
        break;
      case Signal::kMark:
        whole = cursor.read_varint(mark);
        // Those that are not known are left out.
        access.mark = static_cast<prefetch::Mark>(std::min<uint64_t>(mark, prefetch::kMarks));
        break;
    }
    if (whole) continue;
    return fail(Code::kInvalid, fmt::format("its column '{}' is cut off, or not what it should be",
                                            prefetch::kSignalNames[prefetch::index_of(column)]));
  }
  return {};
}

bool BlockDecoder::is_left_out(const Access& access) {
  const auto leave_out = [this](LeftOut reason) {
    ++left_out_[static_cast<size_t>(reason)];
    return true;
  };
  if (access.head >= header_.layout.all()) return leave_out(LeftOut::kHead);
  if (!(access.mass >= 0 && access.mass <= kMostMass)) return leave_out(LeftOut::kMass);
  if (!std::isfinite(access.score)) return leave_out(LeftOut::kScore);
  if (!std::isfinite(access.similarity)) return leave_out(LeftOut::kSimilarity);
  if (!is_from_zero(access.entropy)) return leave_out(LeftOut::kEntropy);
  if (!is_from_zero(access.margin)) return leave_out(LeftOut::kMargin);
  return static_cast<uint32_t>(access.mark) >= prefetch::kMarks && leave_out(LeftOut::kMark);
}

}  // namespace farpage::paging
