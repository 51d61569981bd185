#include "integrity/facts.h"

#include <gtest/gtest.h>

#include <string>

namespace farpage {
namespace {

Result<std::string> canonical(const std::string& lines) {
  return parse_facts(lines).and_then(
      [](const std::vector<Fact>& facts) { return canonical_facts(facts); });
}
std::string why(const std::string& lines) {
  const auto text = canonical(lines);
  return text ? "taken" : text.error().message;
}

// The example of docs/formats/keys.md.
std::string example() {
  using namespace std::string_literals;
  return "farpage-facts-1\n"s + "\1\0\0\0\0\0\0\0a"s + "\2\0\0\0\0\0\0\0bc"s +
         "\5\0\0\0\0\0\0\0empty"s + "\0\0\0\0\0\0\0\0"s;
}

TEST(Facts, LinesAreFactsInAnyOrder) {
  EXPECT_EQ(canonical("a=bc\nempty=").value(), example());
  EXPECT_EQ(canonical("\nempty=\n\na=bc\n").value(), example());
  EXPECT_EQ(canonical("a=b=c").value(), canonical_facts(std::vector<Fact>{{"a", "b=c"}}).value());
  EXPECT_TRUE(parse_facts("").value().empty());
}

TEST(Facts, ALineThatIsNoFactIsRefused) {
  EXPECT_EQ(why("a=b\ndtype bf16"), "the line 'dtype%20bf16' names no fact: write NAME=VALUE");
  EXPECT_EQ(why("a=b\na=c"), "the fact 'a' is named twice: name each fact once");
  EXPECT_EQ(why("=b"), "a fact has no name: give each fact a name, such as model");
}

TEST(Facts, LinesAreTextOfUtf8) {
  EXPECT_EQ(why("model=Zürich 🂡 \u0800\uFFFF\U0010FFFF\U00010000\uD7FF\uE000"), "taken");
  for (const char* bytes : {"a=\xFF", "a=\xC3", "a=\xC0\x80", "a=\xED\xA0\x80", "\x80=a",
                            "a=\xF4\x90\x80\x80", "a=\xF8\x88\x80\x80\x80", "a=\xE0\x80\x80",
                            "a=\xF0\x80\x80\x80", "a=\xE2\x82", "a=\xF5\x80\x80\x80"}) {
    EXPECT_EQ(why(bytes), "facts are no text of UTF-8");
  }
}

TEST(Facts, ANamespaceHasATagAndDigits) {
  const std::string name_space = name_space_of(example());
  ASSERT_EQ(name_space.size(), 32u);
  const std::string digits = name_space_digits(name_space);
  EXPECT_EQ(digits, "6c792c246064547f3da8e1474b6786e0");
  const uint32_t tag = name_space_tag(name_space);
  EXPECT_EQ(tag_digits(tag), digits.substr(0, 8));
  EXPECT_EQ(parse_tag(digits).value(), tag);
  EXPECT_EQ(parse_tag(digits.substr(0, 8)).value(), tag);
  EXPECT_EQ(parse_tag("0a0b0c0d").value(), 0x0D0C0B0Au);
  EXPECT_EQ(name_space_tag(std::string(32, '\0')), 1u) << "0 is no namespace";
}

TEST(Facts, WhatIsNoNamespaceIsRefused) {
  for (const char* digits : {"", "12", "0a0b0c0g", "0a0b0c0", "0a0b0c0d0", "+1+1+1+1", " a0b0c0d",
                             "0a0b0c0d0a0b0c0d0a0b0c0d0a0b0c0d00"}) {
    const auto tag = parse_tag(digits);
    ASSERT_FALSE(tag.has_value()) << digits;
    EXPECT_NE(tag.error().message.find("is no namespace: give 32 or 8 hexadecimal digits"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace farpage
