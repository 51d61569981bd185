#include "replay/page_content.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "base/random.h"

namespace farpage {
namespace {

constexpr size_t kWordBytes = sizeof(uint64_t);

// Plain additions and shifts: a compiler turns the loops over it into vector code.
class WordStream {
 public:
  WordStream(const PageKey& key, uint64_t put_number)
      : start_(Random::mix(key.low ^ Random::mix(put_number + 1))),
        step_(Random::mix(key.high ^ Random::mix(~put_number)) | 1) {}

  // Words `position` and on.
  template <size_t kCount>
  void fill(uint64_t position, std::array<uint64_t, kCount>& words) const {
    uint64_t value = start_ + position * step_;
    for (size_t i = 0; i < kCount; ++i) words[i] = value + i * step_;
    for (uint64_t& each : words) each ^= each >> 31;
  }

 private:
  uint64_t start_;
  uint64_t step_;
};

constexpr size_t kBlockWords = 64;
constexpr size_t kBlockBytes = kBlockWords * kWordBytes;
using Block = std::array<uint64_t, kBlockWords>;

uint64_t count_different(const std::byte* left, const std::byte* right, size_t bytes) {
  uint64_t different = 0;
  for (size_t i = 0; i < bytes; ++i) different += left[i] != right[i] ? 1 : 0;
  return different;
}

bool block_equals(const std::byte* page, const Block& expected) {
  Block found;
  std::memcpy(found.data(), page, kBlockBytes);
  uint64_t difference = 0;
  for (size_t i = 0; i < kBlockWords; ++i) difference |= found[i] ^ expected[i];
  return difference == 0;
}

}  // namespace

void fill_page(std::span<std::byte> page, const PageKey& key, uint64_t put_number) {
  FARPAGE_CHECK(page.size() >= kMinContentBytes);
  const WordStream stream(key, put_number);
  Block block;
  for (size_t offset = 0; offset < page.size(); offset += kBlockBytes) {
    stream.fill(offset / kWordBytes, block);
    if (offset == 0) block[0] = put_number;
    std::memcpy(page.data() + offset, block.data(), std::min(kBlockBytes, page.size() - offset));
  }
}

uint64_t page_put_number(std::span<const std::byte> page) {
  uint64_t number = 0;
  FARPAGE_CHECK(page.size() >= sizeof(number));
  static_assert(std::endian::native == std::endian::little);
  std::memcpy(&number, page.data(), sizeof(number));
  return number;
}

uint64_t count_wrong_bytes(std::span<const std::byte> page, const PageKey& key, PutRange accepted) {
  FARPAGE_CHECK(page.size() >= kMinContentBytes);
  const uint64_t found = page_put_number(page);
  const uint64_t number = accepted.contains(found) ? found : accepted.last;
  const WordStream stream(key, number);
  uint64_t wrong = 0;
  Block expected;
  for (size_t offset = 0; offset < page.size(); offset += kBlockBytes) {
    stream.fill(offset / kWordBytes, expected);
    if (offset == 0) expected[0] = number;
    const size_t bytes = std::min(kBlockBytes, page.size() - offset);
    if (bytes == kBlockBytes && block_equals(page.data() + offset, expected)) continue;
    wrong += count_different(page.data() + offset,
                             reinterpret_cast<const std::byte*>(expected.data()), bytes);
  }
  return wrong;
}

}  // namespace farpage
