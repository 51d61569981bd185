#include "integrity/page_key.h"

// OpenSSL 3 offers EVP in place of SHA256_Init: it allocates for each hash, which takes more than
// three times as long for a short key.
#define OPENSSL_SUPPRESS_DEPRECATED
#include <fmt/format.h>
#include <openssl/sha.h>

#include <cstring>

#include "base/check.h"

namespace farpage {

PageKey make_page_key(std::string_view name_space, std::string_view engine_key) {
  const uint64_t length = name_space.size();
  SHA256_CTX hash;
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest;
  FARPAGE_CHECK(SHA256_Init(&hash) == 1 && SHA256_Update(&hash, &length, sizeof length) == 1 &&
                SHA256_Update(&hash, name_space.data(), name_space.size()) == 1 &&
                SHA256_Update(&hash, engine_key.data(), engine_key.size()) == 1 &&
                SHA256_Final(digest.data(), &hash) == 1);
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
