#include "prefetch/registry/per_head.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "base/random.h"
#include "prefetch/registry/registry.h"
#include "tests/prefetch/evictions.h"

namespace farpage::prefetch {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

struct OfHead {
  uint32_t head;
  PageNumber page;
};
std::vector<Access> accesses_of(const std::vector<OfHead>& pages) {
  std::vector<Access> accesses;
  for (const OfHead& each : pages) {
    Access access = {accesses.size(), accesses.size(), each.page};
    access.head = each.head;
    accesses.push_back(access);
  }
  return accesses;
}

TEST(PerHead, AHeadThatHasItsShareTakesFromItselfAlone) {
  // Two pages for each head: the scan of head 1 costs head 0 nothing.
  EXPECT_THAT(evicted_of("even/lru", 4,
                         accesses_of({{0, 0}, {0, 1}, {1, 2}, {1, 3}, {1, 4}, {1, 5}, {0, 0}})),
              ElementsAre(2, 3));
}
TEST(PerHead, WhatAHeadDoesNotUseOthersMayUntilItDoes) {
  EXPECT_THAT(evicted_of("even/lru", 4, accesses_of({{0, 0}, {1, 1}, {1, 2}, {1, 3}})), IsEmpty());
  EXPECT_THAT(
      evicted_of("even/lru", 4, accesses_of({{0, 0}, {1, 1}, {1, 2}, {1, 3}, {0, 4}, {0, 5}})),
      ElementsAre(1, 0));
}
TEST(PerHead, AHeadWithoutAShareTakesFromTheFirstOfThoseMostOverTheirs) {
  // One page for each of heads 0 and 1; 2 takes from 0, then gives to whoever comes.
  EXPECT_THAT(evicted_of("even/lru", 2, accesses_of({{0, 0}, {1, 1}, {2, 2}, {1, 3}, {0, 4}})),
              ElementsAre(0, 1, 2));
}
TEST(PerHead, OnePageForManyHeads) {
  EXPECT_THAT(evicted_of("even/lru", 1, accesses_of({{0, 0}, {1, 1}, {2, 2}, {0, 0}})),
              ElementsAre(0, 1, 2));
}
// The caller has to check the heads of accesses first.
TEST(PerHead, AHeadBeyondTheLayoutIsAMistake) {
  for (const char* name : {"even/lru", "reasonalloc/lru"}) {
    const auto chosen = choose_policy(name);
    const auto policy = chosen->make({.budget_pages = 4, .page_bytes = nullptr});
    Access access = {0, 0, 0};
    access.head = 1'000'000;
    access.mass = 0.5F;
    EXPECT_DEATH(policy->on_access(access), "access.head < heads_.size") << name;
  }
}

// The rule, looked up in lists of pages, the one accessed longest ago first.
std::vector<PageNumber> model_of_lru(const std::string& allocation_name, const Setting& setting,
                                     const std::vector<Access>& accesses) {
  const auto chosen = choose_policy(allocation_name + "/lru");
  const auto allocation = chosen->allocation->make(setting);
  std::vector<std::list<PageNumber>> pages(setting.layout.all());
  std::vector<PageNumber> gone;
  uint64_t resident = 0;
  for (const Access& access : accesses) {
    allocation->on_access(access);
    auto& own = pages[access.head];
    const bool was_there = std::erase(own, access.page) > 0;
    own.push_back(access.page);
    if (was_there || ++resident <= setting.budget_pages) continue;
    // With the page that came, which is none that can go.
    std::tuple<int64_t, uint32_t> most = {INT64_MIN, 0};
    for (uint32_t head = 0; head < pages.size(); ++head) {
      if (pages[head].size() <= (head == access.head ? 1 : 0)) continue;
      const auto over = static_cast<int64_t>(pages[head].size()) -
                        static_cast<int64_t>(allocation->shares()[head]);
      if (over > std::get<0>(most)) most = {over, head};
    }
    auto& giver = pages[std::get<1>(most)];
    gone.push_back(giver.front());
    giver.pop_front();
    --resident;
  }
  return gone;
}
TEST(PerHead, FollowsTheRuleOnAnyTrace) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Random random(seed);
    Setting setting;
    setting.budget_pages = 1 + random.below(40);
    setting.layout.heads = static_cast<uint32_t>(2 + random.below(9));
    std::vector<OfHead> pages = {{setting.layout.heads - 1, setting.layout.heads - 1}};
    for (int i = 0; i < 2'000; ++i) {
      const auto page = static_cast<PageNumber>(random.below(1 + random.below(120)));
      pages.push_back({page % setting.layout.heads, page});
    }
    auto accesses = accesses_of(pages);
    for (Access& access : accesses) {
      access.mass = static_cast<float>(random.below(100) * (access.head + access.step / 200 % 5));
    }
    for (const char* name : {"even", "reasonalloc:probes=3:window=40"}) {
      ASSERT_EQ(evicted_of(std::string(name) + "/lru", setting.budget_pages, accesses),
                model_of_lru(name, setting, accesses))
          << name << ", " << seed;
    }
  }
}

TEST(PerHead, OfOneHeadItDecidesAsThePolicyAlone) {
  Random random(4);
  std::vector<Access> accesses;
  PageNumber fresh = 0;
  while (accesses.size() < 1'500) {
    const bool is_new = fresh == 0 || random.below(4) == 0;
    const auto known = static_cast<PageNumber>(random.below(1 + fresh));
    Access access = {accesses.size(), accesses.size() / 3, is_new ? fresh++ : known % fresh};
    access.mass = static_cast<float>(random.below(100)) * 1e-4F;
    access.category = static_cast<uint32_t>(access.page % 3);
    accesses.push_back(access);
  }
  for (const PolicyInfo& info : policies()) {
    for (const AllocationInfo& allocation : allocations()) {
      const std::string divided = std::string(allocation.name) + "/" + std::string(info.name);
      EXPECT_EQ(evicted_of(divided, 16, accesses), evicted_of(std::string(info.name), 16, accesses))
          << divided;
    }
  }
}

// The arguments that a policy was made with, and the calls that it heard.
struct Heard {
  uint64_t budget_pages = 0;
  std::vector<uint64_t> page_bytes;
  std::vector<std::string> events;
};
std::vector<Heard>& heard() {
  static std::vector<Heard> all;
  return all;
}
class Listener final : public Policy {
 public:
  explicit Listener(const Setting& setting) : setting_(setting), own_(heard().size()) {
    heard().push_back({setting.budget_pages, {}, {}});
  }
  void on_access(const Access& access) override {
    tell("access", access.page);
    heard()[own_].page_bytes.push_back(setting_.bytes_of(access.page));
  }
  void on_insert(PageNumber page, uint64_t) override { tell("insert", page); }
  void on_evict(PageNumber page, uint64_t) override { tell("evict", page); }
  PageNumber victim(uint64_t) override { return 1; }
  void set_aside(PageNumber page) override { tell("set aside", page); }
  void put_back() override { heard()[own_].events.emplace_back("put back"); }

 private:
  void tell(const std::string& what, PageNumber page) {
    heard()[own_].events.push_back(what + " " + std::to_string(page));
  }

  const Setting& setting_;
  const size_t own_;
};
TEST(PerHead, APolicyHearsOfItsHeadsPagesAloneByTheirOwnNumbers) {
  const PolicyInfo listener = {
      .name = "listener",
      .what = "",
      .parameters = {},
      .make = [](const Setting& made_for, Values) -> std::unique_ptr<Policy> {
        return std::make_unique<Listener>(made_for);
      }};
  const ChosenAllocation shares = {"even", allocations().data(), {}};
  const ChosenOf<Policy> chosen = {"listener", &listener, {}};
  Setting setting;
  setting.budget_pages = 7;
  setting.layout = {2, 1};
  setting.page_bytes = [](PageNumber page) { return uint64_t{100} + page; };
  heard().clear();
  const auto policy = per_head(shares, chosen, setting);
  for (const Access& access : accesses_of({{1, 40}, {0, 41}, {1, 42}, {1, 43}})) {
    policy->on_access(access);
    policy->on_insert(access.page, access.step);
  }
  EXPECT_EQ(policy->victim(4), 41U + 1);
  policy->on_evict(42, 4);
  ASSERT_EQ(heard().size(), 2U);
  EXPECT_EQ(heard()[0].budget_pages, 3U);  // of head 1, which came first
  EXPECT_EQ(heard()[1].budget_pages, 4U);
  EXPECT_THAT(heard()[0].events, ElementsAre("access 0", "insert 0", "access 1", "insert 1",
                                             "access 2", "insert 2", "evict 1"));
  EXPECT_THAT(heard()[1].events, ElementsAre("access 0", "insert 0"));
  EXPECT_THAT(heard()[0].page_bytes, ElementsAre(140, 142, 143));
}

TEST(PerHead, WhereOneHeadHasTheHeavyPagesItsShareGrowsAndItHitsMore) {
  // Head 0 goes round 24 pages with mass, the other three read pages once, without. 16 pages for
  // each do not hold those 24.
  std::vector<Access> accesses;
  PageNumber scanned = 1'000;
  for (uint64_t step = 0; step < 1'000; ++step) {
    for (uint32_t head = 0; head < 4; ++head) {
      Access access = {accesses.size(), step, 0};
      access.head = head;
      access.page = head == 0 ? static_cast<PageNumber>(step % 24) : scanned++;
      access.mass = head == 0 ? 0.9F : 0;
      accesses.push_back(access);
    }
  }
  const auto hits = [&](const std::string& name) {
    return accesses.size() - 64 - evicted_of(name, 64, accesses).size();
  };
  EXPECT_EQ(hits("even/lru"), 0U);
  EXPECT_GT(hits("reasonalloc/lru"), 900U);
}

}  // namespace
}  // namespace farpage::prefetch
