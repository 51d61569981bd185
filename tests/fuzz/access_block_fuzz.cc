// The blocks of an access trace of anybody, behind their CRC: refused, or accesses whose steps do
// not go back, of pages that are counted. Input: the columns and heads in a byte (in its high half:
// heads, or, from 8, the later columns), then blocks: u8 accesses, u8 bytes, payload. And the whole
// of it as a head.
#include <cmath>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "lab/paging/access_block.h"

namespace {

using namespace farpage;

void check(const paging::BlockDecoder& decoder, const std::vector<prefetch::Access>& accesses) {
  uint64_t number = 0;
  uint64_t step = 0;
  for (const prefetch::Access& access : accesses) {
    FARPAGE_CHECK(access.number == number++);
    FARPAGE_CHECK(access.step >= step);
    FARPAGE_CHECK(access.page < decoder.pages());
    FARPAGE_CHECK(access.head < decoder.header().layout.all());
    FARPAGE_CHECK(std::isfinite(access.mass) && access.mass >= 0);
    FARPAGE_CHECK(std::isfinite(access.score) && std::isfinite(access.similarity));
    FARPAGE_CHECK(std::isfinite(access.entropy) && access.entropy >= 0);
    FARPAGE_CHECK(std::isfinite(access.margin) && access.margin >= 0);
    FARPAGE_CHECK(static_cast<uint32_t>(access.mark) < prefetch::kMarks);
    step = access.step;
  }
  for (const uint64_t left_out : decoder.left_out()) number += left_out;
  FARPAGE_CHECK(number == decoder.accesses());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  std::string_view input(reinterpret_cast<const char*>(data), bytes);
  const auto header = paging::parse_access_header(input);
  if (header) FARPAGE_CHECK(header->layout.all() > 0);
  if (input.empty()) return 0;
  paging::AccessFileHeader made;
  const auto choice = static_cast<uint8_t>(input.front());
  const auto columns = static_cast<uint8_t>(choice < 0x80 ? choice & 0x0F : choice & 0x7F);
  for (size_t i = 0; i < prefetch::kSignalNames.size(); ++i) {
    if ((columns >> i & 1) != 0) made.columns.push_back(static_cast<prefetch::Signal>(i));
  }
  if (choice < 0x80) made.layout.heads = 1 + (choice >> 4);
  paging::BlockDecoder decoder(made);
  std::vector<prefetch::Access> accesses;
  input.remove_prefix(1);
  while (input.size() >= 2) {
    const auto count = static_cast<uint8_t>(input[0]);
    const auto payload = input.substr(2, static_cast<uint8_t>(input[1]));
    if (!decoder.decode(payload, count, accesses)) return 0;
    check(decoder, accesses);
    input.remove_prefix(2 + payload.size());
  }
  return 0;
}
