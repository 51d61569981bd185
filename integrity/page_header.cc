#include "integrity/page_header.h"

#include "integrity/crc32c.h"

namespace farpage {

PageHeader make_page_header(const PageKey& key, Version version, uint64_t incarnation,
                            uint32_t payload_bytes, uint32_t payload_crc, uint32_t name_space) {
  PageHeader header;
  header.magic = kPageMagic;
  header.format = kPageFormat;
  header.key = key;
  header.version = version;
  header.incarnation = incarnation;
  header.payload_bytes = payload_bytes;
  header.payload_crc = payload_crc;
  header.name_space = name_space;
  header.header_crc = header_crc(header);
  return header;
}

uint32_t header_crc(const PageHeader& header) {
  return crc32c(0, &header, offsetof(PageHeader, header_crc));
}

}  // namespace farpage
