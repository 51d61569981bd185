#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

// What pages depend on, and the namespace that follows from it: docs/formats/keys.md.
namespace farpage {

// "dtype" is "bf16". Any bytes; a text stands for its UTF-8.
struct Fact {
  std::string_view name;
  std::string_view value;
};

inline constexpr size_t kFactBytesMax = 4096;  // of a name, and of a value

// Their canonical text, in which their order does not count. kInvalid: there are none; a fact has
// no name, or its name or value is too long; two have the same name.
Result<std::string> canonical_facts(std::span<const Fact> facts);

// Facts in lines, each NAME=VALUE, of which they are parts; empty lines do not count. kInvalid: a
// line without "=", or no text of UTF-8.
Result<std::vector<Fact>> parse_facts(std::string_view lines);

// The namespace of a canonical text: its SHA-256, 32 bytes.
std::string name_space_of(std::string_view canonical);
// What stands for it in the headers of pages: its first four bytes, as a little-endian number, with
// 1 in place of 0.
uint32_t name_space_tag(std::string_view name_space);
// As people read it: the first half of a namespace in 32 hexadecimal digits, or a tag's bytes in 8.
std::string name_space_digits(std::string_view name_space);
std::string tag_digits(uint32_t tag);
// The tag of such digits, 8 or 32 of them. kInvalid: they are none.
Result<uint32_t> parse_tag(std::string_view digits);

}  // namespace farpage
