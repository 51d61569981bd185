#include "net/security/greeting.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <unistd.h>

#include <utility>

#include "base/check.h"
#include "net/secrets/file_rights.h"
#include "net/security/greeting_wire.h"

namespace farpage {
namespace {

constexpr size_t kShortestToken = 16;

// From the kernel: OpenSSL's generator is gone once a process exits, and a client that was left
// open may be dialling still.
template <size_t kBytes>
std::array<std::byte, kBytes> random_bytes() {
  std::array<std::byte, kBytes> bytes;
  FARPAGE_CHECK(getentropy(bytes.data(), kBytes) == 0);
  return bytes;
}

}  // namespace

Result<SharedToken> SharedToken::load(const std::string& path) {
  auto text = read_private_file(
      path, "the token",
      fmt::format("copy the token there that the nodes and their clients share, or make the first "
                  "with '(umask 077; openssl rand -hex 32 > {})'",
                  path));
  if (!text) return tl::unexpected(text.error());
  std::string secret = std::move(*text);
  constexpr const char* kSpace = " \t\r\n";
  secret.erase(0, secret.find_first_not_of(kSpace));
  secret.erase(secret.find_last_not_of(kSpace) + 1);
  if (secret.size() < kShortestToken) {
    return fail(Code::kInvalid,
                fmt::format("the token in '{}' has {} bytes, and needs at least {}: write a longer "
                            "one there, such as 'openssl rand -hex 32' makes",
                            path, secret.size(), kShortestToken));
  }
  return SharedToken{std::move(secret)};
}

Nonce make_nonce() {
  return random_bytes<sizeof(Nonce)>();
}
ChannelId make_channel_id() {
  return random_bytes<sizeof(ChannelId)>();
}

bool looks_like_tls(std::byte first) {
  constexpr std::byte kHandshakeRecord{0x16};
  return first == kHandshakeRecord;
}

namespace greeting {

Proof prove(const SharedToken& token, const char* side, const Nonce& client, const Nonce& node,
            uint32_t kind, const ChannelId& channel) {
  std::string text = fmt::format("farpage {} {} {}:", kGreetingVersion, side, kind);
  for (const std::span<const std::byte> part :
       {std::span<const std::byte>(client), std::span<const std::byte>(node),
        std::span<const std::byte>(channel)}) {
    text.append(reinterpret_cast<const char*>(part.data()), part.size());
  }
  Proof proof = {};
  unsigned int bytes = 0;
  FARPAGE_CHECK(HMAC(EVP_sha256(), token.secret.data(), static_cast<int>(token.secret.size()),
                     reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                     reinterpret_cast<unsigned char*>(proof.data()), &bytes) != nullptr);
  FARPAGE_CHECK(bytes == proof.size());
  return proof;
}

bool equal(const Proof& one, const Proof& other) {
  return CRYPTO_memcmp(one.data(), other.data(), one.size()) == 0;
}

}  // namespace greeting
}  // namespace farpage
