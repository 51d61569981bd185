#include "base/memory/lost_memory.h"

#include <gtest/gtest.h>

#include <array>
#include <csignal>
#include <cstring>
#include <thread>
#include <vector>

#include "base/units.h"
#include "tests/support/shared_pool.h"

namespace farpage {
namespace {

constexpr uint64_t kPage = 4 * kKiB;

bool copies(const SharedPool& pool, std::span<const std::byte> guarded) {
  std::vector<std::byte> to(pool.bytes());
  auto work = [&] { std::memcpy(to.data(), pool.data(), pool.bytes()); };
  return run_unless_lost(guarded, work);
}

std::span<const std::byte> all_of(const SharedPool& pool) {
  return {pool.data(), pool.bytes()};
}

TEST(LostMemory, WorkOnMemoryThatIsThereIsDone) {
  const SharedPool pool(4 * kPage);
  EXPECT_TRUE(copies(pool, all_of(pool)));
}

TEST(LostMemory, WorkOnAFileThatWasShortenedIsLeftAndCanBeDoneOnceItIsThereAgain) {
  SharedPool pool(4 * kPage);
  for (int turn = 0; turn < 3; ++turn) {
    pool.resize(2 * kPage);
    EXPECT_FALSE(copies(pool, all_of(pool)));
    EXPECT_FALSE(copies(pool, all_of(pool)));  // the signal comes again
    pool.resize(4 * kPage);
    EXPECT_TRUE(copies(pool, all_of(pool)));
  }
}

TEST(LostMemory, EachThreadHasItsOwn) {
  SharedPool lost(4 * kPage);
  lost.resize(0);
  const SharedPool whole(4 * kPage);
  std::array<int, 4> wrong = {};
  std::vector<std::thread> threads;
  for (size_t i = 0; i < wrong.size(); ++i) {
    threads.emplace_back([&, i] {
      const SharedPool& pool = i % 2 == 0 ? lost : whole;
      for (int turn = 0; turn < 200; ++turn) {
        wrong[i] += copies(pool, all_of(pool)) == (i % 2 == 0) ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, (std::array<int, 4>{}));
}

// In a process of its own, which ends.
TEST(LostMemoryDeathTest, TheHandlerThatWasThereIsAskedForOtherMemory) {
  SharedPool pool(4 * kPage);
  pool.resize(kPage);
  EXPECT_EXIT(
      {
        std::signal(SIGBUS, [](int) { ::_exit(3); });
        copies(pool, {pool.data(), kPage});  // the others are lost
      },
      testing::ExitedWithCode(3), "");
}

}  // namespace
}  // namespace farpage
