#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "prefetch/access.h"

namespace farpage::paging {

// How an access trace begins.
inline constexpr std::string_view kAccessMagic = "FPACCESS";
inline constexpr uint32_t kAccessVersion = 1;

// The head of an access trace. docs/formats/access-trace.md
struct AccessFileHeader {
  std::string name;
  bool synthetic = false;
  prefetch::HeadLayout layout = {};
  std::vector<prefetch::Signal> columns;
};
Result<AccessFileHeader> parse_access_header(std::string_view json);

// Why accesses are left out though their block is whole.
enum class LeftOut : uint8_t { kHead, kMass, kScore, kSimilarity, kEntropy, kMargin, kMark };
inline constexpr std::array<std::string_view, 7> kLeftOutReasons = {
    "of pages whose head is out of range",
    "whose mass is no number from 0 to 1",
    "whose score is no finite number",
    "whose similarity is no finite number",
    "whose entropy is no number from 0",
    "whose margin is no number from 0",
    "whose mark is not known"};

// Takes the blocks of one file apart, in their order.
class BlockDecoder {
 public:
  explicit BlockDecoder(AccessFileHeader header) : header_(std::move(header)) {}

  // Appends what the block's payload holds, but for what is left out. Errors say what is wrong
  // with it, and not where it is.
  Result<void> decode(std::string_view payload, uint32_t accesses,
                      std::vector<prefetch::Access>& to);

  const AccessFileHeader& header() const { return header_; }
  uint64_t pages() const { return pages_; }        // named so far
  uint64_t accesses() const { return accesses_; }  // in blocks so far, those left out too
  const auto& left_out() const { return left_out_; }

 private:
  class Cursor;

  Result<void> decode_pages(Cursor& cursor, std::span<prefetch::Access> accesses);
  Result<void> decode_heads(Cursor& cursor, std::span<prefetch::Access> accesses,
                            uint64_t first_new);
  Result<void> decode_column(Cursor& cursor, prefetch::Signal column,
                             std::span<prefetch::Access> accesses);
  bool is_left_out(const prefetch::Access& access);

  AccessFileHeader header_;
  uint64_t step_ = 0;
  uint64_t page_ = 0;
  uint64_t pages_ = 0;
  uint64_t accesses_ = 0;
  uint64_t numbered_ = 0;        // of them, those that are not left out
  std::vector<uint32_t> heads_;  // of each page, if there is more than one
  std::array<uint64_t, kLeftOutReasons.size()> left_out_ = {};
};

}  // namespace farpage::paging
