#include "client/key_space.h"

#include <fmt/format.h>
#include <openssl/sha.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/check.h"

namespace farpage {
namespace {

constexpr std::string_view kFormat = "farpage-facts-1\n";

// For an error: short, and without bytes that a terminal or a decoder of UTF-8 stumbles over.
std::string readable(std::string_view name) {
  constexpr size_t kBytesMax = 64;
  std::string text;
  for (const char byte : name.substr(0, kBytesMax)) {
    const bool plain = byte > ' ' && byte <= '~' && byte != '%';
    text += plain ? std::string(1, byte) : fmt::format("%{:02X}", static_cast<uint8_t>(byte));
  }
  return name.size() > kBytesMax ? text + "…" : text;
}

Result<void> validate(const Fact& fact) {
  if (fact.name.empty()) {
    return fail(Code::kInvalid, "a fact has no name: give each fact a name, such as model");
  }
  if (fact.name.size() > KeySpace::kFactBytesMax) {
    return fail(
        Code::kInvalid,
        fmt::format("the name of the fact '{}' has {} bytes, and {} are the most: shorten it",
                    readable(fact.name), fact.name.size(), KeySpace::kFactBytesMax));
  }
  if (fact.value.size() > KeySpace::kFactBytesMax) {
    return fail(Code::kInvalid,
                fmt::format("the value of the fact '{}' has {} bytes, and {} are the most: give a "
                            "hash of it instead",
                            readable(fact.name), fact.value.size(), KeySpace::kFactBytesMax));
  }
  return {};
}

void append(std::string& canonical, std::string_view text) {
  const uint64_t bytes = text.size();  // in the byte order of the host, which is little endian
  canonical.append(reinterpret_cast<const char*>(&bytes), sizeof bytes);
  canonical.append(text);
}

}  // namespace

Result<KeySpace> KeySpace::from_facts(std::span<const Fact> facts) {
  if (facts.empty()) {
    return fail(Code::kInvalid,
                "there are no facts: name what the pages depend on, such as model, revision and "
                "dtype");
  }
  for (const Fact& fact : facts) {
    if (auto valid = validate(fact); !valid) return tl::unexpected(valid.error());
  }
  std::vector<Fact> sorted(facts.begin(), facts.end());
  std::ranges::sort(sorted, {}, &Fact::name);
  const auto twice = std::ranges::adjacent_find(sorted, {}, &Fact::name);
  if (twice != sorted.end()) {
    return fail(Code::kInvalid, fmt::format("the fact '{}' is named twice: name each fact once",
                                            readable(twice->name)));
  }
  std::string canonical(kFormat);
  for (const Fact& fact : sorted) {
    append(canonical, fact.name);
    append(canonical, fact.value);
  }
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  FARPAGE_CHECK(SHA256(reinterpret_cast<const unsigned char*>(canonical.data()), canonical.size(),
                       reinterpret_cast<unsigned char*>(digest.data())) != nullptr);
  return KeySpace(std::move(digest));
}

PageKey KeySpace::key(std::span<const std::byte> engine_key) const {
  return key(std::string_view(reinterpret_cast<const char*>(engine_key.data()), engine_key.size()));
}

std::string KeySpace::digest() const {
  PageKey half;  // has the same digits
  std::memcpy(&half, name_space_.data(), sizeof half);
  return to_string(half);
}

}  // namespace farpage
