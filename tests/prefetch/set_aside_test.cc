#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "prefetch/registry/registry.h"
#include "tests/prefetch/known_future.h"

namespace farpage::prefetch {
namespace {

constexpr uint64_t kBudgetPages = 24;
constexpr size_t kStepAccesses = 5;

std::vector<Access> drawn(uint64_t seed) {
  Random random(seed);
  std::vector<Access> accesses;
  for (uint64_t number = 0; number < 4'000; ++number) {
    const bool is_hot = random.below(2) == 0;
    const auto page = static_cast<PageNumber>(random.below(is_hot ? 12 : 90));
    Access access = {number, number / kStepAccesses, page};
    access.head = page % 4;
    access.mass = static_cast<float>(random.below(1'000)) / 1e6F;
    access.category = page % 3;
    accesses.push_back(access);
  }
  return accesses;
}

std::vector<PageNumber> pages_of(const std::vector<Access>& accesses) {
  std::vector<PageNumber> pages;
  for (const Access& access : accesses) pages.push_back(access.page);
  return pages;
}

// A policy and what is resident in its memory.
struct Memory {
  std::unique_ptr<Policy> policy;
  std::set<PageNumber> resident = {};

  void evict(PageNumber page, uint64_t step) {
    EXPECT_EQ(resident.erase(page), 1u);
    policy->on_evict(page, step);
  }
  void insert(PageNumber page, uint64_t step) {
    resident.insert(page);
    policy->on_insert(page, step);
  }
};

class SetAside : public testing::TestWithParam<std::string> {
 protected:
  SetAside()
      : accesses_(drawn(1)),
        pages_(pages_of(accesses_)),
        future_(pages_),
        chosen_(*choose_policy(GetParam())) {}

  Memory made() const {
    Setting setting;
    setting.budget_pages = kBudgetPages;
    setting.layout.heads = 4;
    if (chosen_.info->sees_future) setting.future = &future_;
    return {chosen_.make(setting)};
  }

  const std::vector<Access> accesses_;
  const std::vector<PageNumber> pages_;
  const KnownFuture future_;
  const ChosenPolicy chosen_;
};

TEST_P(SetAside, EachResidentPageIsNamedOnceUntilAllAreBack) {
  Memory memory = made();
  Random random(2);
  for (const Access& access : accesses_) {
    memory.policy->on_access(access);
    if (memory.resident.contains(access.page)) continue;
    if (memory.resident.size() == kBudgetPages) {
      std::set<PageNumber> left = memory.resident;
      const uint64_t asked = random.below(2) == 0 ? kBudgetPages : random.below(kBudgetPages);
      for (uint64_t i = 0; i < asked; ++i) {
        const PageNumber named = memory.policy->victim(access.step);
        ASSERT_EQ(left.erase(named), 1u) << named << " at " << access.number;
        memory.policy->set_aside(named);
      }
      memory.policy->put_back();
      memory.evict(memory.policy->victim(access.step), access.step);
    }
    memory.insert(access.page, access.step);
  }
}

// Those that change nothing by being asked, as those do that draw, go round, or rank then.
class SetAsideUnchanged : public SetAside {};

// Beside one that hears of the same evictions, and was never asked to name another page.
TEST_P(SetAsideUnchanged, WhatCameBackGoesAsIfItHadNeverBeenNamed) {
  Memory asked = made();
  Memory other = made();
  Random random(3);
  for (const Access& access : accesses_) {
    asked.policy->on_access(access);
    other.policy->on_access(access);
    if (asked.resident.contains(access.page)) continue;
    if (asked.resident.size() == kBudgetPages) {
      const PageNumber first = other.policy->victim(access.step);
      ASSERT_EQ(asked.policy->victim(access.step), first) << "at " << access.number;
      for (uint64_t left = random.below(kBudgetPages - 1); left > 0; --left) {
        const PageNumber named = asked.policy->victim(access.step);
        if (random.below(4) > 0) {
          asked.policy->set_aside(named);
        } else {
          asked.evict(named, access.step);
          other.evict(named, access.step);
        }
      }
      asked.policy->put_back();
      const PageNumber last = other.policy->victim(access.step);
      ASSERT_EQ(asked.policy->victim(access.step), last) << "at " << access.number;
      asked.evict(last, access.step);
      other.evict(last, access.step);
    }
    asked.insert(access.page, access.step);
    other.insert(access.page, access.step);
  }
}

std::vector<std::string> all_names() {
  std::vector<std::string> names = {
      "importance:trust=0.5", "h2o:recent=0.9",  "attention:share=0.8", "even/lru",
      "even/s3fifo",          "reasonalloc/h2o", "even/belady"};
  for (const PolicyInfo& info : policies()) names.emplace_back(info.name);
  return names;
}
std::vector<std::string> unchanged_names() {
  std::vector<std::string> names = all_names();
  std::erase_if(names, [](const std::string& name) {
    return name == "random" || name.ends_with("s3fifo") || name == "lazy";
  });
  return names;
}
std::string test_name(const testing::TestParamInfo<std::string>& tested) {
  std::string name = tested.param;
  std::ranges::replace_if(
      name, [](char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Policies, SetAside, testing::ValuesIn(all_names()), test_name);
INSTANTIATE_TEST_SUITE_P(Policies, SetAsideUnchanged, testing::ValuesIn(unchanged_names()),
                         test_name);

}  // namespace
}  // namespace farpage::prefetch
