#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "integrity/page_key.h"

namespace farpage {

// The truth about a page, independent of any checksum: its bytes are a function of its key and of
// its put's number. The first eight are the number, little endian; the rest is a stream of 64-bit
// words, each a mix of its position with two seeds that come from key and number. So a wrong byte
// is found, and a page of another key, of an older put, torn or moved differs almost everywhere.
//
// A page has at least kMinContentBytes.
inline constexpr uint64_t kMinContentBytes = 64;

void fill_page(std::span<std::byte> page, const PageKey& key, uint64_t put_number);

uint64_t page_put_number(std::span<const std::byte> page);

// Put numbers that a reader may find, both ends included.
struct PutRange {
  uint64_t first = 0;
  uint64_t last = 0;

  bool contains(uint64_t number) const { return first <= number && number <= last; }
};

// How many bytes differ from the put whose number the page carries; if that is none of the
// accepted, from the last accepted one.
uint64_t count_wrong_bytes(std::span<const std::byte> page, const PageKey& key, PutRange accepted);

}  // namespace farpage
