#include "integrity/page_key.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <unordered_set>

namespace farpage {
namespace {

// Made with: (printf '<8 bytes of length>'; printf '<namespace><engine key>') | sha256sum | cut
// -c1-32
TEST(PageKey, IsTheStartOfTheDigest) {
  EXPECT_EQ(to_string(make_page_key("model", "block-42")), "c294e393195b905a3967b4d232e7d785");
  EXPECT_EQ(to_string(make_page_key("", "")), "af5570f5a1810b7af78caf4bc70a660f");
}

TEST(PageKey, IsTheSameForLongNames) {
  EXPECT_EQ(to_string(make_page_key(std::string(300, 'n'), std::string(500, 'k'))),
            "cc81513351e6950858a108ff1ad3743a");
  EXPECT_EQ(to_string(make_page_key("modelabc", std::string(240, 'k'))),
            "36696a20975822d6f5234ad7360df925");
  EXPECT_EQ(to_string(make_page_key("modelabc", std::string(241, 'k'))),
            "dbd87dd54f8b2598bed180f96742da77");
}

TEST(PageKey, LiesInMemoryInTheDigestsOrder) {
  const PageKey key = make_page_key("model", "block-42");
  EXPECT_EQ(key.low, 0x5A905B1993E394C2u);
  EXPECT_EQ(key.high, 0x85D7E732D2B46739u);
}

TEST(PageKey, TheBorderBetweenNamespaceAndKeyCounts) {
  EXPECT_NE(make_page_key("ab", "c"), make_page_key("a", "bc"));
  EXPECT_NE(make_page_key("a", ""), make_page_key("", "a"));
}

RC_GTEST_PROP(PageKey, DifferentNamesGetDifferentKeys,
              (const std::string& space_a, const std::string& key_a, const std::string& space_b,
               const std::string& key_b)) {
  const bool same = space_a == space_b && key_a == key_b;
  RC_ASSERT((make_page_key(space_a, key_a) == make_page_key(space_b, key_b)) == same);
  RC_ASSERT(make_page_key(space_a, key_a) == make_page_key(space_a, key_a));
}

TEST(PageKey, HashesIntoContainers) {
  std::unordered_set<PageKey> keys;
  for (int i = 0; i < 1000; ++i) keys.insert(make_page_key("model", std::to_string(i)));
  EXPECT_EQ(keys.size(), 1000u);
}

}  // namespace
}  // namespace farpage
