#include "integrity/page_header.h"

#include "integrity/crc32c.h"

namespace farpage {
namespace {

// The finalizer of SplitMix64 (Steele, Lea, Flood 2014): a bijection, so equal inputs alone give
// equal words.
constexpr uint64_t mix(uint64_t value) {
  value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9;
  value = (value ^ value >> 27) * 0x94D049BB133111EB;
  return value ^ value >> 31;
}

}  // namespace

uint64_t live_token(const PageKey& key, Version version, uint64_t incarnation) {
  const uint64_t token = mix(mix(mix(mix(key.low) ^ key.high) ^ version) ^ incarnation);
  return token == 0 ? 1 : token;
}

PageHeader make_page_header(const PageKey& key, Version version, uint64_t incarnation,
                            uint32_t payload_bytes, uint32_t payload_crc) {
  PageHeader header;
  header.magic = kPageMagic;
  header.format = kPageFormat;
  header.key = key;
  header.version = version;
  header.incarnation = incarnation;
  header.payload_bytes = payload_bytes;
  header.payload_crc = payload_crc;
  header.header_crc = header_crc(header);
  return header;
}

uint32_t header_crc(const PageHeader& header) {
  return crc32c(0, &header, offsetof(PageHeader, header_crc));
}

}  // namespace farpage
