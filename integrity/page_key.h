#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace farpage {

// The 128-bit name of a page (protocol rule 21). On the wire and in a slot: `low`, then `high`,
// each little endian.
struct PageKey {
  uint64_t low = 0;
  uint64_t high = 0;

  friend bool operator==(const PageKey&, const PageKey&) = default;
};

// The first 16 bytes of SHA-256(length of the namespace as 8 bytes little endian ‖ namespace ‖
// engine key). An engine's own hashes are often fast ones, for which collisions can be made on
// purpose; two prompts must never share a page.
PageKey make_page_key(std::string_view name_space, std::string_view engine_key);

// 32 hexadecimal digits, in the order of the digest's bytes.
std::string to_string(const PageKey& key);

}  // namespace farpage

template <>
struct std::hash<farpage::PageKey> {
  // The key is a digest already: any 64 bits of it are a hash.
  size_t operator()(const farpage::PageKey& key) const noexcept { return key.low; }
};
