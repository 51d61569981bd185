#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <random>

#include "client/key_space.h"
#include "tests/client/c/c_client.h"
#include "tests/client/key_vectors.h"

namespace farpage {
namespace {

using testing::HasSubstr;
using NameSpace = std::array<uint8_t, FARPAGE_NAMESPACE_BYTES>;

std::vector<farpage_fact_t> facts_of(const Facts& pairs) {
  std::vector<farpage_fact_t> facts;
  for (const auto& [name, value] : pairs) {
    facts.push_back({name.data(), name.size(), value.data(), value.size()});
  }
  return facts;
}

farpage_code_t name_space_of(const Facts& pairs, NameSpace& made) {
  const auto facts = facts_of(pairs);
  return farpage_namespace(facts.data(), facts.size(), made.data());
}

std::string hex_of(std::span<const uint8_t> bytes) {
  return hex({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

TEST(CKey, KeysAreThoseOfTheDocument) {
  const std::vector<Vector> vectors = documented_vectors();
  EXPECT_GE(vectors.size(), 15u);
  for (const Vector& vector : vectors) {
    NameSpace made = {};
    expect_ok(name_space_of(vector.facts, made));
    EXPECT_EQ(hex_of(made), vector.name_space);
    const std::string& name = vector.engine_key;
    farpage_key_t key = {};
    expect_ok(farpage_key(made.data(), made.size(), name.data(), name.size(), &key));
    EXPECT_EQ(hex_of(key.bytes), vector.key);
  }
}

TEST(CKey, TheOrderOfFactsDoesNotCount) {
  Facts facts = {{"model", "m"}, {"dtype", ""}, {"a", "b"}, {std::string("\0\xff", 2), "x"}};
  NameSpace made = {};
  NameSpace again = {};
  expect_ok(name_space_of(facts, made));
  for (uint32_t seed = 0; seed < 8; ++seed) {
    std::shuffle(facts.begin(), facts.end(), std::mt19937(seed));
    expect_ok(name_space_of(facts, again));
    EXPECT_EQ(made, again);
  }
}

TEST(CKey, FactsAreRefusedAsInCpp) {
  const std::string longest(4'096, 'x');
  const Facts refused[] = {
      {},
      {{"model", "a"}, {"", "b"}},
      {{"model", "a"}, {"dtype", "b"}, {"model", "a"}},
      {{"model", longest + "x"}},
      {{longest + "x", ""}},
  };
  for (const Facts& pairs : refused) {
    NameSpace made;
    made.fill(1);
    EXPECT_EQ(name_space_of(pairs, made), FARPAGE_INVALID);
    EXPECT_EQ(made, NameSpace());
    std::vector<Fact> facts;
    for (const auto& [name, value] : pairs) facts.push_back({name, value});
    EXPECT_EQ(farpage_last_error(), KeySpace::from_facts(facts).error().message);
  }
  NameSpace made = {};
  expect_ok(name_space_of({{longest, longest}}, made));
}

TEST(CKey, WhatIsNullInAFactIsNamed) {
  NameSpace made = {};
  farpage_fact_t facts[] = {{"model", 5, "m", 1}, {"dtype", 5, nullptr, 0}};
  expect_ok(farpage_namespace(facts, 2, made.data()));
  facts[1].value_bytes = 1;
  EXPECT_EQ(farpage_namespace(facts, 2, made.data()), FARPAGE_INVALID);
  EXPECT_THAT(farpage_last_error(), HasSubstr("fact 1: value is null"));
  facts[0].name = nullptr;
  EXPECT_EQ(farpage_namespace(facts, 2, made.data()), FARPAGE_INVALID);
  EXPECT_THAT(farpage_last_error(), HasSubstr("fact 0: name is null"));
  EXPECT_EQ(farpage_namespace(nullptr, 2, made.data()), FARPAGE_INVALID);
  EXPECT_EQ(farpage_namespace(facts, 2, nullptr), FARPAGE_INVALID);
}

TEST(CKey, ManyAtOnceAreThoseOfOneEach) {
  constexpr size_t kNameBytes = 32;
  std::vector<uint8_t> names(64 * kNameBytes);
  for (size_t i = 0; i < names.size(); ++i) names[i] = static_cast<uint8_t>(i * 7 + i / 256);
  for (const size_t name_bytes : {size_t{0}, size_t{1}, kNameBytes}) {
    std::vector<farpage_key_t> keys(64 + 1, farpage_key_t{});
    expect_ok(farpage_keys("space", 5, names.data(), name_bytes, 64, keys.data()));
    for (size_t i = 0; i < 64; ++i) {
      farpage_key_t one = {};
      expect_ok(farpage_key("space", 5, names.data() + i * name_bytes, name_bytes, &one));
      EXPECT_EQ(hex_of(keys[i].bytes), hex_of(one.bytes)) << i;
    }
    EXPECT_EQ(hex_of(keys[64].bytes), std::string(32, '0'));  // no more than asked for
  }
  expect_ok(farpage_keys(nullptr, 0, nullptr, 1, 0, nullptr));
  farpage_key_t key = {};
  EXPECT_EQ(farpage_keys(nullptr, 0, nullptr, 1, 1, &key), FARPAGE_INVALID);
  EXPECT_THAT(farpage_last_error(), HasSubstr("names is null"));
  EXPECT_EQ(farpage_keys(nullptr, 1, "a", 1, 1, &key), FARPAGE_INVALID);
  EXPECT_EQ(farpage_keys("s", 1, "a", 1, 1, nullptr), FARPAGE_INVALID);
}

}  // namespace
}  // namespace farpage
