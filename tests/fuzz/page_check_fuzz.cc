// A header and what is expected of it, both arbitrary: judged, and good only if every field agrees.
#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "integrity/page_check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  using namespace farpage;
  PageHeader header;
  PageExpectation expected;
  constexpr size_t kOptions = 1;
  if (bytes < sizeof header + sizeof expected + kOptions) return 0;
  std::memcpy(&expected, data + kOptions, sizeof expected);
  std::memcpy(static_cast<void*>(&header), data + kOptions + sizeof expected, sizeof header);
  if ((data[0] & 1) != 0) {  // a valid header, so that the checks behind the CRC are reached
    header = make_page_header(header.key, header.version, header.incarnation, header.payload_bytes,
                              header.payload_crc);
    header.live = live_token(header.key, header.version, header.incarnation);
  }
  if ((data[0] & 2) != 0) expected.key = header.key;
  if ((data[0] & 4) != 0) expected.incarnation = header.incarnation;
  if ((data[0] & 8) != 0) expected.version = 0;
  if ((data[0] & 16) != 0) expected.payload_bytes = 0;
  const PageFinding finding = check_header(header, expected);
  FARPAGE_CHECK(finding_name(finding) != nullptr);
  if (finding != PageFinding::kGood) return 0;
  FARPAGE_CHECK(header.key == expected.key);
  FARPAGE_CHECK(header.incarnation == expected.incarnation);
  FARPAGE_CHECK(expected.version == 0 || header.version == expected.version);
  FARPAGE_CHECK(expected.version != 0 || header.version >= expected.min_version);
  FARPAGE_CHECK(expected.payload_bytes == 0 || header.payload_bytes == expected.payload_bytes);
  FARPAGE_CHECK(header.live == live_token(header.key, header.version, header.incarnation));
  FARPAGE_CHECK(header.header_crc == header_crc(header));
  return 0;
}
