#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <optional>
#include <string>

#include "integrity/crc32c.h"
#include "integrity/facts.h"
#include "node/store/page_store.h"
#include "sim/network/sim_fabric.h"
#include "sim/network/world.h"

namespace farpage {
namespace {

constexpr uint64_t kPageBytes = 256;
constexpr uint64_t kReuse = 64'000;
constexpr uint64_t kCooling = kReuse + kReuse / 64;

struct HandClock final : Clock {
  uint64_t now = kSecond;
  uint64_t now_ns() const override { return now; }
};

PageKey key_of(uint64_t number) {
  return make_page_key("flush", std::to_string(number));
}

// A store whose pages name a namespace.
class Store {
 public:
  Store() {
    const Geometry geometry = make_geometry(kPageBytes, 32 * (kPageBytes + 64)).value();
    store_ = PageStore::create({geometry, 77, kReuse, true}, fabric_, clock).value();
  }

  PageStore* operator->() { return store_.get(); }
  void kill_if(const std::function<bool(const PageKey&)>& foreign) {
    store_->kill_if(0, store_->slots().size(), foreign);
  }

  Code put(uint64_t number, Version version, uint32_t name_space = 0) {
    const std::string text = "page " + std::to_string(number);
    return store_->put(key_of(number), version,
                       {reinterpret_cast<const std::byte*>(text.data()), text.size()},
                       crc32c(0, text.data(), text.size()), false, name_space);
  }
  uint64_t flush(uint32_t name_space) {
    const auto flushed = store_->flush(name_space, 0, store_->slots().size());
    pinned = flushed.pinned;
    return flushed.evicted;
  }
  std::optional<uint32_t> find_slot(uint64_t number) const {
    const auto found = store_->find(key_of(number));
    return found ? std::optional(found->slot) : std::nullopt;
  }
  PageHeader& header(uint32_t slot) {
    return *reinterpret_cast<PageHeader*>(store_->pool().data() +
                                          store_->geometry().header_offset(slot));
  }

  HandClock clock;
  uint64_t pinned = 0;  // of the last flush

 private:
  sim::World world_{1};
  sim::SimFabric fabric_{world_, {}};
  std::unique_ptr<PageStore> store_;
};

TEST(PageStoreFlush, FlushEvictsThePagesOfOneNamespace) {
  Store store;
  for (uint64_t i = 0; i < 12; ++i) {
    ASSERT_EQ(store.put(i, i + 1, static_cast<uint32_t>(i % 3)), Code::kOk);
  }
  EXPECT_EQ(store.flush(2), 4u);
  for (uint64_t i = 0; i < 12; ++i) EXPECT_EQ(store.find_slot(i).has_value(), i % 3 != 2) << i;
  EXPECT_EQ(store->evictions(), 4u);
  EXPECT_EQ(store.flush(2), 0u);
  EXPECT_EQ(store.flush(7), 0u);
  EXPECT_EQ(store.put(2, 2), Code::kInvalid) << "what was flushed comes back by no fill";
}

TEST(PageStoreFlush, FlushKnowsAPageWhoseHeaderIsDamaged) {
  Store store;
  ASSERT_EQ(store.put(1, 10, 5), Code::kOk);
  const uint32_t slot = store.find_slot(1).value();
  store.header(slot).name_space ^= 1;
  EXPECT_EQ(store.flush(4), 0u);
  EXPECT_EQ(store.flush(5), 1u);
  EXPECT_EQ(store.header(slot).live, 0u);
}

TEST(PageStoreFlush, FlushLeavesPagesThatOthersAreAboutToRead) {
  Store store;
  ASSERT_EQ(store.put(1, 10, 5), Code::kOk);
  const uint32_t slot = store.find_slot(1).value();
  store->pin(slot, 10);
  EXPECT_EQ(store.flush(5), 0u);
  EXPECT_EQ(store.pinned, 1u);
  EXPECT_TRUE(store.find_slot(1).has_value());
  store->unpin(slot, 10);
  EXPECT_EQ(store.flush(5), 1u);
  EXPECT_EQ(store.pinned, 0u);
}

TEST(PageStoreFlush, FlushDropsPagesThatOnlyOtherNodesRead) {
  Store store;
  for (uint64_t i = 0; i < 4; ++i) {
    ASSERT_EQ(store.put(i, i + 1, i < 2 ? 5 : 6), Code::kOk);
  }
  store.kill_if([](const PageKey&) { return true; });
  ASSERT_EQ(store->slots().dead_count(), 4u);
  EXPECT_EQ(store.flush(5), 2u);
  EXPECT_EQ(store->slots().dead_count(), 2u);
}

TEST(PageStoreFlush, PagesAreCountedByNamespaceWhateverBecomesOfThem) {
  Store store;
  const auto pages = [&store](uint32_t tag) {
    for (const NameSpaceStatus& one : store->name_spaces().status(kPageBytes)) {
      if (parse_tag(one.name_space).value() == tag) return one.pages;
    }
    return uint64_t{0};
  };
  for (uint64_t i = 0; i < 6; ++i) ASSERT_EQ(store.put(i, i + 1, 5), Code::kOk);
  EXPECT_EQ(pages(5), 6u);
  ASSERT_EQ(store.put(0, 10, 6), Code::kOk) << "another version, of another namespace";
  EXPECT_EQ(pages(5), 5u);
  EXPECT_EQ(pages(6), 1u);
  EXPECT_TRUE(store->remove(key_of(1)));
  EXPECT_EQ(pages(5), 4u);
  *store->payload(store.find_slot(2).value()) ^= std::byte{1};
  EXPECT_EQ(store->check(key_of(2)), Code::kAborted);
  EXPECT_EQ(pages(5), 3u);
  store.kill_if([](const PageKey& key) { return key == key_of(3); });
  EXPECT_EQ(pages(5), 2u);
  for (uint64_t i = 100; i < 200; ++i) {
    store.clock.now += kCooling;
    ASSERT_EQ(store.put(i, i, 7), Code::kOk);
  }
  EXPECT_EQ(pages(5), 0u) << "all are evicted";
  EXPECT_EQ(pages(7), store->slots().live_count());
}

}  // namespace
}  // namespace farpage
