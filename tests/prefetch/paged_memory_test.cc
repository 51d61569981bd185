#include "prefetch/paged_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace farpage::prefetch {
namespace {

using testing::ElementsAre;

// Names the page that was inserted first, and writes down what it hears.
class Oldest final : public Policy {
 public:
  void on_access(const Access& access) override { heard.push_back('a' + name(access.page)); }
  void on_insert(PageNumber page, uint64_t step) override {
    resident_.push_back(page);
    heard.push_back('i' + name(page) + '@' + std::to_string(step));
  }
  void on_evict(PageNumber page, uint64_t step) override {
    heard.push_back('e' + name(page) + '@' + std::to_string(step));
    resident_.erase(resident_.begin());
  }
  PageNumber victim(uint64_t) override { return resident_.front(); }
  void set_aside(PageNumber) override {}
  void put_back() override {}

  std::vector<std::string> heard;

 private:
  static std::string name(PageNumber page) { return std::to_string(page); }

  std::vector<PageNumber> resident_;
};

TEST(PagedMemory, WhatIsThereHitsAndWhatIsNotIsBroughtInWhenThereIsRoom) {
  Oldest policy;
  PagedMemory memory(2, policy);
  std::vector<bool> hits;
  uint64_t number = 0;
  for (const PageNumber page : {0, 1, 0, 2, 1, 0}) {
    hits.push_back(memory.access({number, 10 * number, page}));
    ++number;
  }
  EXPECT_THAT(hits, ElementsAre(false, false, true, false, true, false));
  EXPECT_EQ(memory.evictions(), 2u);
  EXPECT_THAT(policy.heard, ElementsAre("a0", "i0@0", "a1", "i1@10", "a0", "a2", "e0@30", "i2@30",
                                        "a1", "a0", "e1@50", "i0@50"));
}
TEST(PagedMemory, WithoutABudgetNothingIsEverThere) {
  Oldest policy;
  PagedMemory memory(0, policy);
  EXPECT_FALSE(memory.access({0, 0, 0}));
  EXPECT_FALSE(memory.access({1, 1, 0}));
  EXPECT_THAT(policy.heard, ElementsAre("a0", "a0"));
  EXPECT_EQ(memory.evictions(), 0u);
}

}  // namespace
}  // namespace farpage::prefetch
