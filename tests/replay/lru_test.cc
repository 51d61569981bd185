#include "replay/lru.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <vector>

namespace farpage {
namespace {

// One entry a line, the most recently used first.
struct Reference {
  size_t capacity;
  std::vector<int> keys;

  bool touch(int key) {
    const auto found = std::find(keys.begin(), keys.end(), key);
    if (found == keys.end()) return false;
    keys.erase(found);
    keys.insert(keys.begin(), key);
    return true;
  }

  std::optional<int> insert(int key) {
    keys.insert(keys.begin(), key);
    if (keys.size() <= capacity) return std::nullopt;
    const int last = keys.back();
    keys.pop_back();
    return last;
  }
};

RC_GTEST_PROP(LruMap, DoesWhatAListDoes, ()) {
  const auto capacity = *rc::gen::inRange<size_t>(0, 8);
  const auto accesses = *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 12));
  LruMap<int, int> lru(capacity);
  Reference reference = {capacity, {}};
  for (const int key : accesses) {
    const int* value = lru.touch(key);
    RC_ASSERT((value != nullptr) == reference.touch(key));
    if (value != nullptr) {
      RC_ASSERT(*value == 10 * key);
      continue;
    }
    const auto evicted = lru.insert(key, 10 * key);
    const std::optional<int> expected = reference.insert(key);
    RC_ASSERT(evicted.has_value() == expected.has_value());
    if (evicted) {
      RC_ASSERT(evicted->first == *expected);
      RC_ASSERT(evicted->second == 10 * *expected);
    }
    RC_ASSERT(lru.size() == reference.keys.size());
  }
}

TEST(LruMap, WithoutCapacityNothingStays) {
  LruMap<int, int> lru(0);
  const auto evicted = lru.insert(1, 2);
  ASSERT_TRUE(evicted.has_value());
  EXPECT_EQ(evicted->first, 1);
  EXPECT_EQ(lru.touch(1), nullptr);
}

}  // namespace
}  // namespace farpage
