#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "prefetch/page_list.h"
#include "prefetch/registry/registry.h"

namespace farpage::prefetch {
namespace {

constexpr uint64_t kBudgetPages = 12;
constexpr size_t kRemembered = 24;  // beside those
using Name = uint64_t;

std::vector<Name> drawn(uint64_t seed) {
  Random random(seed);
  std::vector<Name> pages;
  while (pages.size() < 4'000) {
    const bool is_hot = random.below(2) == 0;
    pages.push_back(random.below(is_hot ? 15 : 300));
  }
  return pages;
}

// A policy whose user forgets pages that have been gone for longest. Then their numbers are given
// to others, of which the policy hears; or nobody has them, and others get new ones.
class Memory {
 public:
  Memory(const std::string& policy, bool gives_again) : gives_again_(gives_again) {
    Setting setting;
    setting.budget_pages = kBudgetPages;
    policy_ = choose_policy(policy).value().make(setting);
  }

  // The page that goes for it, or none.
  std::optional<Name> access(Name page) {
    if (!numbers_.contains(page)) number(page);
    const PageNumber number = numbers_.at(page);
    policy_->on_access({step_, step_, number});
    std::optional<Name> gone;
    if (!resident_.contains(number)) gone = insert(number);
    ++step_;
    return gone;
  }
  uint64_t forgotten() const { return forgotten_; }

 private:
  void number(Name page) {
    auto number = static_cast<PageNumber>(names_.size());
    if (gone_.size() == kRemembered) {
      const PageNumber oldest = gone_.front();
      gone_.remove(oldest);
      numbers_.erase(names_[oldest]);
      ++forgotten_;
      if (gives_again_) {
        number = oldest;
        policy_->on_forget(number);
      }
    }
    names_.resize(std::max<size_t>(names_.size(), number + 1));
    names_[number] = page;
    numbers_[page] = number;
  }

  std::optional<Name> insert(PageNumber number) {
    if (gone_.contains(number)) gone_.remove(number);
    std::optional<Name> gone;
    if (resident_.size() == kBudgetPages) {
      const PageNumber victim = policy_->victim(step_);
      EXPECT_EQ(resident_.erase(victim), 1u);
      policy_->on_evict(victim, step_);
      gone_.push_back(victim);
      gone = names_[victim];
    }
    resident_.insert(number);
    policy_->on_insert(number, step_);
    return gone;
  }

  const bool gives_again_;
  std::unique_ptr<Policy> policy_;
  std::map<Name, PageNumber> numbers_;
  std::vector<Name> names_;  // by number
  std::set<PageNumber> resident_;
  PageList gone_;
  uint64_t step_ = 0;
  uint64_t forgotten_ = 0;
};

class Forget : public testing::TestWithParam<std::string> {};

TEST_P(Forget, APageWithANumberThatAnotherHadIsANewOne) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    Memory again(GetParam(), true);
    Memory anew(GetParam(), false);
    for (const Name page : drawn(seed)) ASSERT_EQ(again.access(page), anew.access(page)) << seed;
    EXPECT_GT(again.forgotten(), 500u);
  }
}

// Its records count pages by number, forgotten ones not among them.
TEST(ForgetOfMilestonePages, NamesResidentPages) {
  Memory memory("milestone:within=20", true);
  for (const Name page : drawn(1)) memory.access(page);
  EXPECT_GT(memory.forgotten(), 500u);
}

std::vector<std::string> all_names() {
  std::vector<std::string> names = {"windowed_recency:window=1000"};
  for (const PolicyInfo& info : policies()) {
    const bool is_for_nodes = info.needs.empty() && !info.sees_future;
    if (is_for_nodes && info.name != "milestone") names.emplace_back(info.name);
  }
  return names;
}
std::string test_name(const testing::TestParamInfo<std::string>& tested) {
  std::string name = tested.param;
  std::ranges::replace_if(
      name, [](char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Policies, Forget, testing::ValuesIn(all_names()), test_name);

}  // namespace
}  // namespace farpage::prefetch
