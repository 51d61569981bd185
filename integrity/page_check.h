#pragma once

#include <cstddef>
#include <cstdint>

#include "integrity/page_header.h"

namespace farpage {

// The finding on a landed page, from the landed bytes alone. Every value but kGood asks the reader
// to look again.
enum class PageFinding : uint8_t {
  kGood,
  kCorrupt,       // no header, a wrong CRC, or a page of another incarnation
  kOtherPage,     // a whole and live page, but of another key
  kNotLive,       // superseded, removed, evicted or not yet written
  kOtherVersion,  // live, but not the version that was expected, or below the lowest accepted one
  kOtherLength,   // live and acceptable, but not as long as its destination
};

const char* finding_name(PageFinding finding);

struct PageExpectation {
  PageKey key;
  Version version = 0;  // exactly this one; 0: any that is at least min_version
  Version min_version = 0;
  uint64_t incarnation = 0;
  uint64_t payload_bytes = 0;  // 0: any length
};

// Whether a landed header shows exactly this page, of this length (0: of any). It says kGood where
// check_header() does, but for damage that costs no reader a byte: the header's own CRC guards what
// neither the live token nor a comparison binds, which is the payload's CRC, and a payload that is
// checked against a damaged one fails.
inline bool shows_exactly(const PageHeader& header, const PageKey& key, Version version,
                          uint64_t incarnation, uint64_t payload_bytes) {
  const uint64_t differences = (header.live ^ live_token(key, version, incarnation)) |
                               (header.magic ^ kPageMagic) | (header.format ^ kPageFormat) |
                               (header.key.low ^ key.low) | (header.key.high ^ key.high) |
                               (header.version ^ version) | (header.incarnation ^ incarnation);
  return differences == 0 && (payload_bytes == 0 || header.payload_bytes == payload_bytes);
}

// Judges a landed header (protocol rules 1 and 3). kGood says that the payload which landed with it
// is the right page if its CRC is header.payload_crc.
PageFinding check_header(const PageHeader& header, const PageExpectation& expected);

}  // namespace farpage
