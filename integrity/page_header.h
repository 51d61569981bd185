#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "integrity/page_key.h"

namespace farpage {

// (epoch, counter): never given out twice by one node, because an epoch never repeats and the
// counter only grows within one (protocol rule 7). 0 is no version.
using Version = uint64_t;

inline constexpr int kVersionCounterBits = 40;
inline constexpr uint64_t kMaxVersionCounter = (uint64_t{1} << kVersionCounterBits) - 1;
inline constexpr uint64_t kMaxEpoch = (uint64_t{1} << (64 - kVersionCounterBits)) - 1;

constexpr Version make_version(uint64_t epoch, uint64_t counter) {
  return epoch << kVersionCounterBits | counter;
}
constexpr uint64_t version_epoch(Version version) {
  return version >> kVersionCounterBits;
}

inline constexpr uint32_t kPageMagic = 0x47505246;  // "FRPG"
inline constexpr uint16_t kPageFormat = 1;

// The 64 bytes in front of a page's payload in its slot, little endian: docs/formats/slot.md.
struct alignas(64) PageHeader {
  uint32_t magic = 0;
  uint16_t format = 0;
  uint16_t reserved = 0;
  PageKey key;
  Version version = 0;
  uint64_t incarnation = 0;
  uint32_t payload_bytes = 0;
  uint32_t payload_crc = 0;
  uint32_t name_space = 0;  // name_space_tag() of who put it; 0: it named none
  uint32_t header_crc = 0;  // of the 52 bytes before it
  uint64_t live = 0;        // live_token() while the page may be read, otherwise anything else
};

static_assert(std::endian::native == std::endian::little, "the slot format is little endian");
static_assert(sizeof(PageHeader) == 64);
static_assert(offsetof(PageHeader, key) == 8);
static_assert(offsetof(PageHeader, version) == 24);
static_assert(offsetof(PageHeader, incarnation) == 32);
static_assert(offsetof(PageHeader, payload_bytes) == 40);
static_assert(offsetof(PageHeader, payload_crc) == 44);
static_assert(offsetof(PageHeader, name_space) == 48);
static_assert(offsetof(PageHeader, header_crc) == 52);
static_assert(offsetof(PageHeader, live) == 56);

// The finalizer of SplitMix64 (Steele, Lea, Flood 2014): a bijection, so equal inputs alone give
// equal words.
constexpr uint64_t mix_bits(uint64_t value) {
  value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9;
  value = (value ^ value >> 27) * 0x94D049BB133111EB;
  return value ^ value >> 31;
}

// The exact word that marks this page, at this version, of this incarnation, as live; never 0.
constexpr uint64_t live_token(const PageKey& key, Version version, uint64_t incarnation) {
  const uint64_t token =
      mix_bits(mix_bits(mix_bits(mix_bits(key.low) ^ key.high) ^ version) ^ incarnation);
  return token == 0 ? 1 : token;
}

// A whole header with its CRC; `live` is 0.
PageHeader make_page_header(const PageKey& key, Version version, uint64_t incarnation,
                            uint32_t payload_bytes, uint32_t payload_crc, uint32_t name_space = 0);

uint32_t header_crc(const PageHeader& header);

}  // namespace farpage
