#pragma once

#include <cstdint>

#include "transport/cuda/kernels/page_batch.h"
#include "transport/cuda/kernels/warp_crc.h"

namespace farpage::cuda {

// farpage::PageFinding and the header's layout, in words that both sides know.
enum Finding : uint8_t { kGood, kCorrupt, kOtherPage, kNotLive, kOtherVersion, kOtherLength };

struct HeaderWords {
  uint32_t magic;
  uint32_t format;  // and 16 bits of 0
  uint64_t key_low;
  uint64_t key_high;
  uint64_t version;
  uint64_t incarnation;
  uint32_t payload_bytes;
  uint32_t payload_crc;
  uint32_t namespace_tag;
  uint32_t header_crc;
  uint64_t live;
};
static_assert(sizeof(HeaderWords) == 64);

inline constexpr int kHeaderCrcWords = 13;  // that header_crc covers

// The share of the header's word `at` in its CRC: that is the exclusive-or of all, inverted.
FARPAGE_BOTH uint32_t header_share(uint32_t word, int at, const CrcConstants& constants) {
  return multiply_lanes(word ^ initial_bits(at), constants.column[kHeaderCrcWords - 1 - at]);
}

FARPAGE_BOTH uint64_t mix_word(uint64_t value) {
  value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9;
  value = (value ^ value >> 27) * 0x94D049BB133111EB;
  return value ^ value >> 31;
}

FARPAGE_BOTH uint64_t live_word(const HeaderWords& header) {
  const uint64_t token =
      mix_word(mix_word(mix_word(mix_word(header.key_low) ^ header.key_high) ^ header.version) ^
               header.incarnation);
  return token == 0 ? 1 : token;
}

// Over what a kernel is told of a page: a wrong block would take a good page to another's place.
FARPAGE_BOTH uint64_t item_check(const PageItem& page) {
  uint64_t word = mix_word(page.payload ^ 0x9E3779B97F4A7C15);
  word = mix_word(word ^ page.header);
  word = mix_word(word ^ page.key_low);
  word = mix_word(word ^ page.key_high);
  word = mix_word(word ^ page.version);
  word = mix_word(word ^ page.min_version);
  word = mix_word(word ^ page.incarnation);
  return mix_word(word ^ (static_cast<uint64_t>(page.payload_bytes) << 32 | page.block));
}

// check_header() of integrity/page_check.h; `crc` is that of the words before header_crc.
FARPAGE_BOTH Finding judge_header(const HeaderWords& header, uint32_t crc, const PageItem& page) {
  if (header.live == 0) return kNotLive;
  const bool whole =
      header.magic == 0x47505246 && (header.format & 0xFFFF) == 1 && header.header_crc == crc;
  if (!whole || header.incarnation != page.incarnation) return kCorrupt;
  if (header.live != live_word(header)) return kNotLive;
  if (header.key_low != page.key_low || header.key_high != page.key_high) return kOtherPage;
  if (page.version != 0 && header.version != page.version) return kOtherVersion;
  if (header.version < page.min_version) return kOtherVersion;
  if (header.payload_bytes != page.payload_bytes) return kOtherLength;
  return kGood;
}

}  // namespace farpage::cuda
