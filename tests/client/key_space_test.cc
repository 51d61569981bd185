#include "client/key_space.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "tests/client/key_vectors.h"

namespace farpage {
namespace {

Result<KeySpace> from(const Facts& pairs) {
  std::vector<Fact> facts;
  for (const auto& [name, value] : pairs) facts.push_back({name, value});
  return KeySpace::from_facts(facts);
}

std::string name_space(const Facts& facts) {
  return from(facts).value().name_space();
}

std::string refusal(const Facts& facts) {
  const auto space = from(facts);
  if (space) return "taken";
  EXPECT_EQ(space.error().code, Code::kInvalid);
  return space.error().message;
}

TEST(KeySpace, KeysAreThoseOfTheDocument) {
  const std::vector<Vector> vectors = documented_vectors();
  EXPECT_GE(vectors.size(), 15u);
  for (const Vector& vector : vectors) {
    const KeySpace space = from(vector.facts).value();
    EXPECT_EQ(hex(space.name_space()), vector.name_space);
    EXPECT_EQ(space.digest(), vector.name_space.substr(0, 32));
    EXPECT_EQ(to_string(space.key(vector.engine_key)), vector.key);
    EXPECT_EQ(space.key(std::as_bytes(std::span(vector.engine_key))), space.key(vector.engine_key));
  }
}

TEST(KeySpace, KeysAreOfItsNamespace) {
  const KeySpace space = from({{"model", "a"}}).value();
  EXPECT_EQ(space.key("block"), make_page_key(space.name_space(), "block"));
  EXPECT_EQ(space.key(std::span<const std::byte>()), space.key(""));
}

TEST(KeySpace, FactsThatConcatenateToTheSameTextDiffer) {
  const std::string border("\1\0\0\0\0\0\0\0", 8);
  const std::vector<Facts> all = {
      {{"abc", ""}},
      {{"ab", "c"}},
      {{"a", "bc"}},
      {{"a", ""}, {"bc", ""}},
      {{"a", ""}, {"b", "c"}},
      {{"a", "1"}, {"b", "2"}},
      {{"a", "1b2"}},
      {{"a", "1" + border + "b" + border + "2"}},
      {{"a", "b"}, {"c", "d"}},
      {{"a", "bc"}, {"d", ""}},
      {{"a", "b\nc=d"}},
      {{"a=b\nc", "d"}},
      {{"a", std::string("b\0", 2)}},
      {{"a", "b"}},
  };
  std::set<std::string> spaces;
  std::set<std::string> keys;
  for (const Facts& facts : all) {
    spaces.insert(name_space(facts));
    keys.insert(to_string(from(facts).value().key("block")));
  }
  EXPECT_EQ(spaces.size(), all.size());
  EXPECT_EQ(keys.size(), all.size());
}

RC_GTEST_PROP(KeySpace, OrderDoesNotCount,
              (const std::map<std::string, std::string>& map, uint32_t seed)) {
  Facts facts(map.begin(), map.end());
  std::erase_if(facts, [](const auto& fact) { return fact.first.empty(); });
  RC_PRE(!facts.empty());
  const std::string sorted = name_space(facts);
  std::shuffle(facts.begin(), facts.end(), std::mt19937(seed));
  RC_ASSERT(name_space(facts) == sorted);
}

RC_GTEST_PROP(KeySpace, OtherFactsGiveOtherKeys,
              (std::map<std::string, std::string> one, std::map<std::string, std::string> other)) {
  one.erase("");
  other.erase("");
  RC_PRE(!one.empty() && !other.empty());
  RC_ASSERT((name_space({one.begin(), one.end()}) == name_space({other.begin(), other.end()})) ==
            (one == other));
}

TEST(KeySpace, WhatCannotBeAFactIsRefusedInASentence) {
  const std::string longest(kFactBytesMax, 'x');
  EXPECT_EQ(refusal({{longest, longest}}), "taken");
  EXPECT_EQ(refusal({}),
            "there are no facts: name what the pages depend on, such as model, revision and dtype");
  EXPECT_EQ(refusal({{"model", "a"}, {"", "b"}}),
            "a fact has no name: give each fact a name, such as model");
  EXPECT_EQ(refusal({{"model", "a"}, {"dtype", "b"}, {"model", "a"}}),
            "the fact 'model' is named twice: name each fact once");
  EXPECT_EQ(refusal({{"model", longest + "x"}}),
            "the value of the fact 'model' has 4097 bytes, and 4096 are the most: give a hash of "
            "it instead");
  EXPECT_EQ(refusal({{longest + "x", ""}}),
            "the name of the fact '" + std::string(64, 'x') +
                "…' has 4097 bytes, and 4096 are the most: shorten it");
}

TEST(KeySpace, RefusalsArePlainTextWhateverTheNameIs) {
  EXPECT_EQ(refusal({{"\xFF\n%", ""}, {"\xFF\n%", ""}}),
            "the fact '%FF%0A%25' is named twice: name each fact once");
}

}  // namespace
}  // namespace farpage
