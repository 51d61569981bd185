#include "integrity/page_key.h"

#include <fmt/format.h>
#include <openssl/sha.h>

#include <cstring>

#include "base/check.h"

namespace farpage {

PageKey make_page_key(std::string_view name_space, std::string_view engine_key) {
  constexpr size_t kInlineBytes = 256;
  const uint64_t length = name_space.size();
  const size_t total = sizeof length + name_space.size() + engine_key.size();
  std::array<unsigned char, kInlineBytes> small;
  std::string large;
  unsigned char* message = small.data();
  if (total > small.size()) {
    large.resize(total);
    message = reinterpret_cast<unsigned char*>(large.data());
  }
  std::memcpy(message, &length, sizeof length);
  name_space.copy(reinterpret_cast<char*>(message) + sizeof length, name_space.size());
  engine_key.copy(reinterpret_cast<char*>(message) + sizeof length + name_space.size(),
                  engine_key.size());

  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest;
  FARPAGE_CHECK(SHA256(message, total, digest.data()) != nullptr);
  PageKey key;
  std::memcpy(&key, digest.data(), sizeof key);
  return key;
}

std::string to_string(const PageKey& key) {
  std::array<unsigned char, sizeof(PageKey)> bytes;
  std::memcpy(bytes.data(), &key, sizeof key);
  std::string text;
  for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

}  // namespace farpage
