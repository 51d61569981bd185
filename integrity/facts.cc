#include "integrity/facts.h"

#include <fmt/format.h>
#include <openssl/sha.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/check.h"

namespace farpage {
namespace {

constexpr size_t kTagBytes = 4;
constexpr size_t kShownBytes = 16;  // of a namespace
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
  if (fact.name.size() > kFactBytesMax) {
    return fail(
        Code::kInvalid,
        fmt::format("the name of the fact '{}' has {} bytes, and {} are the most: shorten it",
                    readable(fact.name), fact.name.size(), kFactBytesMax));
  }
  if (fact.value.size() > kFactBytesMax) {
    return fail(Code::kInvalid,
                fmt::format("the value of the fact '{}' has {} bytes, and {} are the most: give a "
                            "hash of it instead",
                            readable(fact.name), fact.value.size(), kFactBytesMax));
  }
  return {};
}

void append(std::string& canonical, std::string_view text) {
  const uint64_t bytes = text.size();  // in the byte order of the host, which is little endian
  canonical.append(reinterpret_cast<const char*>(&bytes), sizeof bytes);
  canonical.append(text);
}

// As RFC 3629 has it: in the shortest form, up to U+10FFFF, no surrogates.
bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const auto first = static_cast<uint8_t>(text[0]);
    const size_t more = first < 0x80 ? 0 : first < 0xE0 ? 1 : first < 0xF0 ? 2 : 3;
    if (first >= 0x80 && (first < 0xC2 || first > 0xF4)) return false;
    if (text.size() <= more) return false;
    for (size_t i = 1; i <= more; ++i) {
      const auto next = static_cast<uint8_t>(text[i]);
      const bool is_second = i == 1;
      const uint8_t least = is_second && first == 0xE0   ? 0xA0
                            : is_second && first == 0xF0 ? 0x90
                                                         : 0x80;
      const uint8_t most = is_second && first == 0xED   ? 0x9F
                           : is_second && first == 0xF4 ? 0x8F
                                                        : 0xBF;
      if (next < least || next > most) return false;
    }
    text.remove_prefix(more + 1);
  }
  return true;
}

std::string digits_of(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<uint8_t>(byte));
  return text;
}

}  // namespace

Result<std::string> canonical_facts(std::span<const Fact> facts) {
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
  return canonical;
}

Result<std::vector<Fact>> parse_facts(std::string_view lines) {
  if (!is_utf8(lines)) return fail(Code::kInvalid, "facts are no text of UTF-8");
  std::vector<Fact> facts;
  while (!lines.empty()) {
    const size_t end = std::min(lines.find('\n'), lines.size());
    const std::string_view line = lines.substr(0, end);
    lines.remove_prefix(std::min(end + 1, lines.size()));
    if (line.empty()) continue;
    const size_t equals = line.find('=');
    if (equals == std::string_view::npos) {
      return fail(Code::kInvalid,
                  fmt::format("the line '{}' names no fact: write NAME=VALUE", readable(line)));
    }
    facts.push_back({line.substr(0, equals), line.substr(equals + 1)});
  }
  return facts;
}

std::string name_space_of(std::string_view canonical) {
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  FARPAGE_CHECK(SHA256(reinterpret_cast<const unsigned char*>(canonical.data()), canonical.size(),
                       reinterpret_cast<unsigned char*>(digest.data())) != nullptr);
  return digest;
}

uint32_t name_space_tag(std::string_view name_space) {
  uint32_t tag = 0;
  FARPAGE_CHECK(name_space.size() >= sizeof tag);
  std::memcpy(&tag, name_space.data(), sizeof tag);
  return tag == 0 ? 1 : tag;
}

std::string name_space_digits(std::string_view name_space) {
  return digits_of(name_space.substr(0, kShownBytes));
}

std::string tag_digits(uint32_t tag) {
  return digits_of({reinterpret_cast<const char*>(&tag), sizeof tag});
}

Result<uint32_t> parse_tag(std::string_view digits) {
  std::string bytes;
  for (std::string_view left = digits; left.size() >= 2; left.remove_prefix(2)) {
    uint8_t byte = 0;
    const auto read = std::from_chars(left.data(), left.data() + 2, byte, 16);
    if (read.ec != std::errc() || read.ptr != left.data() + 2) break;
    bytes.push_back(static_cast<char>(byte));
  }
  const bool is_whole = bytes.size() * 2 == digits.size();
  if (!is_whole || (bytes.size() != kTagBytes && bytes.size() != kShownBytes)) {
    return fail(Code::kInvalid,
                fmt::format("'{}' is no namespace: give 32 or 8 hexadecimal digits, as 'farpage "
                            "status' shows them",
                            readable(digits)));
  }
  return name_space_tag(bytes);
}

}  // namespace farpage
