// Looks at registrations that come and go beside them.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "transport/tcp/exports.h"

namespace farpage::tcp {
namespace {

class TcpExports : public testing::Test {
 protected:
  std::optional<Exports::Entry> find(const RegionKey& key) {
    const Exports::Use use(exports_, user_);
    return use.find(key);
  }

  Exports exports_;
  Exports::User& user_ = exports_.add_user();
  std::array<std::byte, 64> memory_ = {};
};

TEST_F(TcpExports, EachRegionIsFoundByItsOwnKeyHoweverManyThereAre) {
  constexpr uint64_t kRegions = 1'000;
  std::vector<RegionKey> keys;
  for (uint64_t i = 0; i < kRegions; ++i) {
    keys.push_back(exports_.add({memory_.data(), i, Access::kRemoteWrite, i + 7}));
  }
  for (uint64_t i = 0; i < kRegions; ++i) {
    const auto entry = find(keys[i]);
    ASSERT_TRUE(entry.has_value());
    EXPECT_EQ(entry->data, memory_.data());
    EXPECT_EQ(entry->bytes, i);
    EXPECT_EQ(entry->access, Access::kRemoteWrite);
    EXPECT_EQ(entry->channel, i + 7);
  }
}

TEST_F(TcpExports, NothingIsFoundByAKeyThatNobodyGaveOut) {
  for (const uint32_t index : {0u, 1u, 63u, 64u, 1u << 31, 0xFFFFFFFFu}) {
    for (const uint32_t generation : {0u, 1u, 0xFFFFFFFFu}) {
      EXPECT_FALSE(find({index, generation}).has_value()) << index << ' ' << generation;
    }
  }
  const RegionKey key = exports_.add({memory_.data(), 1, Access::kRemoteRead, 0});
  EXPECT_FALSE(find({key.index, key.generation + 1}).has_value());
  EXPECT_FALSE(find({key.index, 0}).has_value());
  EXPECT_FALSE(find({key.index + 1, 0}).has_value());
}

TEST_F(TcpExports, ARegionThatTakesThePlaceOfAnotherIsNotFoundByThatOnesKey) {
  const RegionKey former = exports_.add({memory_.data(), 1, Access::kRemoteRead, 0});
  exports_.remove(former);
  EXPECT_FALSE(find(former).has_value());
  const RegionKey key = exports_.add({memory_.data(), 2, Access::kRemoteRead, 0});
  ASSERT_EQ(key.index, former.index);
  EXPECT_FALSE(find(former).has_value());
  EXPECT_EQ(find(key).value().bytes, 2u);
}

TEST_F(TcpExports, RemovingWaitsForWhoeverHasFoundTheRegion) {
  const RegionKey key = exports_.add({memory_.data(), 1, Access::kRemoteRead, 0});
  Exports::User& other = exports_.add_user();
  std::atomic<bool> removed{false};
  std::thread remover;
  {
    const Exports::Use use(exports_, user_);
    EXPECT_TRUE(use.find(key).has_value());
    remover = std::thread([&] {
      exports_.remove(key);
      removed = true;
    });
    const auto is_there = [&] {
      const Exports::Use look(exports_, other);
      return look.find(key).has_value();
    };
    while (is_there()) std::this_thread::yield();
    for (int i = 0; i < 100; ++i) std::this_thread::yield();
    EXPECT_FALSE(removed);
  }
  remover.join();
  EXPECT_TRUE(removed);
}

// Does what I/O threads do all the time, while regions come and go.
TEST_F(TcpExports, NobodyTouchesTheMemoryOfARegionThatHasGone) {
  constexpr int kRegions = 20;
  constexpr size_t kBytes = 4096;
  constexpr std::byte kThere{0x11};
  constexpr std::byte kGone{0xEE};
  std::atomic<uint64_t> current{0};  // a key
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> found{0};
  std::atomic<uint64_t> wrong{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 2; ++thread) {
    threads.emplace_back([&, &user = exports_.add_user()] {
      while (!stop) {
        const uint64_t packed = current;
        const Exports::Use use(exports_, user);
        const auto entry =
            use.find({static_cast<uint32_t>(packed), static_cast<uint32_t>(packed >> 32)});
        if (!entry) continue;
        ++found;
        if (std::count(entry->data, entry->data + entry->bytes, kThere) !=
            static_cast<std::ptrdiff_t>(entry->bytes)) {
          ++wrong;
        }
      }
    });
  }
  for (int i = 0; i < kRegions; ++i) {
    std::vector<std::byte> memory(kBytes, kThere);
    const RegionKey key = exports_.add({memory.data(), memory.size(), Access::kRemoteRead, 0});
    const uint64_t before = found;
    current = uint64_t{key.generation} << 32 | key.index;
    while (found == before) std::this_thread::yield();
    exports_.remove(key);
    std::ranges::fill(memory, kGone);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_GT(found, 0u);
}

}  // namespace
}  // namespace farpage::tcp
