#include "node/store/eviction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "integrity/crc32c.h"
#include "integrity/page_key.h"
#include "node/store/page_store.h"
#include "prefetch/paged_memory.h"
#include "sim/network/sim_fabric.h"
#include "sim/network/world.h"

namespace farpage {
namespace {

using prefetch::PageNumber;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr uint64_t kPageBytes = 256;
constexpr uint64_t kReuse = 64'000;
constexpr uint64_t kSlots = 64;
constexpr uint64_t kResident = kSlots - kSlots / 16 + 1;  // after a put

struct HandClock final : Clock {
  uint64_t now = kSecond;
  uint64_t now_ns() const override { return now; }
};

PageKey key_of(PageNumber page) {
  return make_page_key("eviction", std::to_string(page));
}

// A node's store, as a client without memory of its own uses it: it reads what is there, and puts
// what is not, and waits until slots have cooled.
class Store {
 public:
  explicit Store(const std::string& eviction, uint64_t slots = kSlots) {
    const Geometry geometry = make_geometry(kPageBytes, slots * (kPageBytes + 64)).value();
    store_ = PageStore::create({geometry, 7, kReuse, true, eviction}, fabric_, clock_).value();
  }

  PageStore* operator->() { return store_.get(); }
  void kill_if(const std::function<bool(const PageKey&)>& foreign) {
    store_->kill_if(0, store_->slots().size(), foreign);
  }

  bool access(PageNumber page) {
    if (const auto found = store_->find(key_of(page))) {
      store_->touch(found->slot);
      return true;
    }
    put(page);
    return false;
  }
  void put(PageNumber page) {
    std::byte payload[sizeof page];
    std::memcpy(payload, &page, sizeof page);
    const uint32_t crc = crc32c(0, payload, sizeof page);
    ++version_;
    Code code = Code::kExhausted;
    for (int tries = 0; tries < 2 && code == Code::kExhausted; ++tries) {
      clock_.now += 2 * kReuse;
      code = store_->put(key_of(page), version_, payload, crc);
    }
    ASSERT_EQ(code, Code::kOk);
    resident_.insert(page);
  }
  // Since the last call, in the order of their numbers.
  std::vector<PageNumber> gone() {
    std::vector<PageNumber> gone;
    for (const PageNumber page : resident_) {
      if (!store_->find(key_of(page))) gone.push_back(page);
    }
    for (const PageNumber page : gone) resident_.erase(page);
    return gone;
  }
  size_t found() {
    (void)gone();
    return resident_.size();
  }

 private:
  sim::World world_{1};
  sim::SimFabric fabric_{world_, {}};
  HandClock clock_;
  std::unique_ptr<PageStore> store_;
  Version version_ = 0;
  std::set<PageNumber> resident_;
};

// A policy, and what has gone as it said.
class Recorded final : public prefetch::Policy {
 public:
  explicit Recorded(const std::string& name) {
    prefetch::Setting setting;
    setting.budget_pages = kResident;
    policy_ = prefetch::choose_policy(name).value().make(setting);
  }

  void on_access(const prefetch::Access& access) override { policy_->on_access(access); }
  void on_insert(PageNumber page, uint64_t step) override { policy_->on_insert(page, step); }
  void on_evict(PageNumber page, uint64_t step) override {
    gone.push_back(page);
    policy_->on_evict(page, step);
  }
  PageNumber victim(uint64_t step) override { return policy_->victim(step); }
  void set_aside(PageNumber page) override { policy_->set_aside(page); }
  void put_back() override { policy_->put_back(); }

  std::vector<PageNumber> gone;

 private:
  std::unique_ptr<prefetch::Policy> policy_;
};

// Hot pages, pages in a loop, and any of so many; numbered as they are first named.
std::vector<PageNumber> drawn(uint64_t seed, uint64_t pages, size_t accesses) {
  Random random(seed);
  std::map<uint64_t, PageNumber> numbers;
  std::vector<PageNumber> drawn;
  while (drawn.size() < accesses) {
    const uint64_t kind = random.below(4);
    const uint64_t page = kind < 2    ? random.below(30)
                          : kind == 2 ? drawn.size() % 50
                                      : random.below(pages);
    drawn.push_back(
        numbers.try_emplace(page, static_cast<PageNumber>(numbers.size())).first->second);
  }
  return drawn;
}

void expect_as_simulated(const std::string& name, uint64_t pages) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    Store store(name);
    Recorded policy(name);
    prefetch::PagedMemory memory(kResident, policy);
    uint64_t number = 0;
    for (const PageNumber page : drawn(seed, pages, 3'000)) {
      policy.gone.clear();
      const bool was_there = memory.access({number, number, page});
      ASSERT_EQ(store.access(page), was_there) << "access " << number << ", seed " << seed;
      ASSERT_EQ(store.gone(), policy.gone) << "access " << number << ", seed " << seed;
      ++number;
    }
    EXPECT_EQ(store->evictions(), memory.evictions());
    EXPECT_GT(store->evictions(), 200u);
  }
}

std::vector<std::string> all_names() {
  std::vector<std::string> names = {"s3fifo:small=0.4", "reuse_rate:kinds=1:half_life=300",
                                    "regret_aware:horizon=200", "windowed_recency:window=900"};
  for (const prefetch::PolicyInfo& info : prefetch::policies()) {
    if (choose_eviction(info.name)) names.emplace_back(info.name);
  }
  return names;
}

class EvictionBy : public testing::TestWithParam<std::string> {};

TEST_P(EvictionBy, APolicyIsWhatItEvictsInASimulation) {
  expect_as_simulated(GetParam(), 3 * kSlots);  // a node remembers all of them
}

// Pages go for many reasons besides, and some may not go; what the policy names is always there.
TEST_P(EvictionBy, APolicyHearsOfWhateverComesAndGoes) {
  Store store(GetParam());
  Random random(1);
  for (int i = 0; i < 3'000; ++i) {
    const auto page = static_cast<PageNumber>(random.below(10 * kSlots));
    const auto found = store->find(key_of(page));
    switch (random.below(8)) {
      case 0:
        EXPECT_EQ(store->remove(key_of(page)), found.has_value());
        break;
      case 1:
        store->touch(static_cast<uint32_t>(random.below(2 * kSlots)));
        break;
      case 2:
        if (found) store->pin(found->slot, found->version);
        break;
      case 3:
        if (found) store->unpin(found->slot, found->version);
        break;
      case 4:
        if (i % 100 == 4) store.kill_if([](const PageKey& key) { return key.low % 4 == 0; });
        break;
      case 5:
        if (const auto slot = store->take()) store->release(*slot);
        break;
      default:
        store.put(page);
    }
    ASSERT_EQ(store.found(), store->slots().live_count()) << i;
  }
  EXPECT_GT(store->evictions(), 100u);
}

std::string test_name(const testing::TestParamInfo<std::string>& tested) {
  std::string name = tested.param;
  std::ranges::replace_if(
      name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Policies, EvictionBy, testing::ValuesIn(all_names()), test_name);

// These know nothing of pages that have gone for long.
TEST(Eviction, IsAsSimulatedWithMorePagesThanANodeRemembers) {
  for (const char* name : {"lru", "fifo", "lfu", "random", "s3fifo"}) {
    SCOPED_TRACE(name);
    expect_as_simulated(name, 40 * kSlots);
  }
}

TEST(Eviction, IsByTheClockUnlessAPolicyIsNamed) {
  EXPECT_EQ(PageStoreOptions().eviction, "clock");
  EXPECT_FALSE(choose_eviction("clock").value().has_value());
  Store clock("clock");
  EXPECT_FALSE(clock->is_ranked());
  Store lru("lru");
  EXPECT_TRUE(lru->is_ranked());
  // CLOCK passes over what was touched once, whenever that was.
  std::vector<PageNumber> by_clock;
  std::vector<PageNumber> by_lru;
  for (PageNumber page = 0; page < 100; ++page) {
    for (Store* store : {&clock, &lru}) {
      store->put(page);
      if (page == 40) {
        EXPECT_TRUE(store->access(0));
      }
      for (const PageNumber gone : store->gone()) {
        (store == &clock ? by_clock : by_lru).push_back(gone);
      }
    }
  }
  ASSERT_EQ(by_clock.size(), 100 - kResident);
  ASSERT_EQ(by_lru.size(), 100 - kResident);
  EXPECT_EQ(std::ranges::count(by_clock, 0U), 0);
  EXPECT_EQ(std::ranges::count(by_lru, 0U), 0);
  EXPECT_EQ(by_lru.front(), 1U);
}

TEST(Eviction, APinnedPageGoesOnceItIsNotPinned) {
  Store store("lru", 4);
  for (PageNumber page = 0; page < 4; ++page) store.put(page);
  const auto first = store->find(key_of(0)).value();
  store->pin(first.slot, first.version);
  store.put(4);
  EXPECT_THAT(store.gone(), ElementsAre(1));
  store->unpin(first.slot, first.version);
  store.put(5);
  EXPECT_THAT(store.gone(), ElementsAre(0));
}

TEST(Eviction, ANewVersionIsAUseOfThePage) {
  Store store("lru", 4);
  for (const PageNumber page : {0U, 1U, 2U, 0U, 3U, 4U}) store.put(page);
  EXPECT_THAT(store.gone(), ElementsAre(1));
}

TEST(Eviction, NamesAndParametersAreThoseOfTheLaboratory) {
  const auto chosen = choose_eviction("s3fifo:small=0.25").value();
  EXPECT_EQ(chosen->info->name, "s3fifo");
  EXPECT_THAT(chosen->values, ElementsAre(0.25, 1));
}

TEST(Eviction, WhatANodeCannotGoByIsRefusedWithASentence) {
  const std::map<std::string, std::string> refused = {
      {"", "node.eviction is '': there is no such policy: choose among clock, "},
      {"clok", "there is no such policy; did you mean 'clock'?: choose among clock, "},
      {"s3fif0:small=0.1", "did you mean 's3fifo'?"},
      {"clock:hand=2", "clock has no parameters"},
      {"h2o", "h2o needs the signal 'mass' of each access, which no node hears of: choose among"},
      {"workload_aware:life=10", "workload_aware needs the signal 'category'"},
      {"belady", "belady sees the future, and no node does: choose among"},
      {"even/lru", "a node does not know whose head a page is"},
      {"reasonalloc:window=64/lru", "a node does not know whose head a page is"},
      {"s3fifo:smal=0.1", "node.eviction: 'smal=0.1' sets no parameter of s3fifo; did you mean"},
      {"s3fifo:small=2", "small of s3fifo is a number from 0 to 1"},
  };
  for (const auto& [text, sentence] : refused) {
    const auto chosen = choose_eviction(text);
    ASSERT_FALSE(chosen.has_value()) << text;
    EXPECT_EQ(chosen.error().code, Code::kInvalid);
    EXPECT_THAT(chosen.error().message, HasSubstr(sentence));
    EXPECT_THAT(chosen.error().message, HasSubstr("node.eviction"));
  }
}

TEST(Eviction, WhatIsRefusedIsNotSuggestedEither) {
  const std::string message = choose_eviction("nothing").error().message;
  for (const prefetch::PolicyInfo& info : prefetch::policies()) {
    const bool is_named = message.find(std::string(info.name)) != std::string::npos;
    EXPECT_EQ(is_named, info.needs.empty() && !info.sees_future) << info.name;
  }
}

}  // namespace
}  // namespace farpage
