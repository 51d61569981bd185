#include <gtest/gtest.h>

#include <array>

#include "client/key_space.h"
#include "tests/support/allocations.h"

namespace farpage {
namespace {

TEST(KeySpaceAllocation, KeysOfAnyLengthAllocateNothing) {
  const std::array facts = {Fact{"model", "Qwen3-8B"}, Fact{"dtype", "bfloat16"}};
  KeySpace space = KeySpace::from_facts(facts).value();
  EXPECT_GT(allocations_of([&] { space = KeySpace::from_facts(facts).value(); }), 0u);
  for (const size_t bytes : {0, 32, 1'000, 1'000'000}) {
    const std::string engine_key(bytes, 'k');
    PageKey key;
    EXPECT_EQ(allocations_of([&] { key = space.key(engine_key); }), 0u) << bytes;
    EXPECT_NE(key, PageKey());
  }
}

}  // namespace
}  // namespace farpage
