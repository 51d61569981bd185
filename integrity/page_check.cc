#include "integrity/page_check.h"

namespace farpage {

const char* finding_name(PageFinding finding) {
  switch (finding) {
    case PageFinding::kGood:
      return "good";
    case PageFinding::kCorrupt:
      return "corrupt";
    case PageFinding::kOtherPage:
      return "other page";
    case PageFinding::kNotLive:
      return "not live";
    case PageFinding::kOtherVersion:
      return "other version";
    case PageFinding::kOtherLength:
      return "other length";
  }
  return "unknown";
}

PageFinding check_header(const PageHeader& header, const PageExpectation& expected) {
  const bool whole = header.magic == kPageMagic && header.format == kPageFormat &&
                     header.header_crc == header_crc(header);
  if (header.live == 0) return PageFinding::kNotLive;
  if (!whole || header.incarnation != expected.incarnation) return PageFinding::kCorrupt;
  if (header.live != live_token(header.key, header.version, header.incarnation)) {
    return PageFinding::kNotLive;
  }
  if (header.key != expected.key) return PageFinding::kOtherPage;
  if (expected.version != 0 && header.version != expected.version)
    return PageFinding::kOtherVersion;
  if (header.version < expected.min_version) return PageFinding::kOtherVersion;
  if (expected.payload_bytes != 0 && header.payload_bytes != expected.payload_bytes) {
    return PageFinding::kOtherLength;
  }
  return PageFinding::kGood;
}

}  // namespace farpage
