#include "client/runner/fence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <initializer_list>
#include <thread>
#include <vector>

namespace farpage {
namespace {

using testing::HasSubstr;

constexpr uint32_t kPages = 70;  // three words of bits

class FenceWords : public testing::Test {
 protected:
  const farpage_fence_words& words() const {
    return *reinterpret_cast<const farpage_fence_words*>(memory_.data());
  }
  farpage_fence_words& mutable_words() {
    return *reinterpret_cast<farpage_fence_words*>(memory_.data());
  }
  bool is_decided() const { return words().decided == words().begun; }
  std::vector<uint64_t> ready() const {
    std::vector<uint64_t> pages;
    for (uint64_t page = 0; page < 2 * kPages; ++page) {
      if (farpage_fence_is_ready(&words(), page)) pages.push_back(page);
    }
    return pages;
  }
  static std::vector<PageVerdict> verdicts(size_t count, std::initializer_list<size_t> ready) {
    std::vector<PageVerdict> made(count);
    for (PageVerdict& page : made) page.verdict = Verdict::kRecompute;
    for (const size_t page : ready) made[page].verdict = Verdict::kReady;
    return made;
  }

  std::vector<std::byte> memory_ = std::vector<std::byte>(Fence::bytes_for(kPages));
  Fence fence_{memory_, kPages};
};

TEST_F(FenceWords, SayWhichPagesAreReadyOnceTheyAreDecided) {
  ASSERT_TRUE(fence_.begin(kPages));
  EXPECT_EQ(words().begun, 1u);
  EXPECT_EQ(words().pages, kPages);
  EXPECT_FALSE(is_decided());
  EXPECT_TRUE(ready().empty());
  fence_.decide(verdicts(kPages, {0, 31, 32, 69}));
  EXPECT_TRUE(is_decided());
  EXPECT_EQ(ready(), (std::vector<uint64_t>{0, 31, 32, 69}));
}

TEST_F(FenceWords, SayNothingOfTheLastFetchOnceTheNextHasBegun) {
  ASSERT_TRUE(fence_.begin(kPages));
  fence_.decide(verdicts(kPages, {5, 68}));
  ASSERT_TRUE(fence_.begin(8));
  EXPECT_FALSE(is_decided());
  EXPECT_EQ(words().pages, 8u);
  EXPECT_TRUE(ready().empty());
  fence_.decide(verdicts(8, {7}));
  EXPECT_EQ(words().decided, 2u);
  EXPECT_EQ(ready(), std::vector<uint64_t>{7});
}

TEST_F(FenceWords, LeaveAFetchThatIsUnderWayAlone) {
  ASSERT_TRUE(fence_.begin(2));
  const auto second = fence_.begin(3);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kInvalid);
  EXPECT_THAT(second.error().message, HasSubstr("wait for its ticket, or use another fence"));
  EXPECT_FALSE(fence_.clear());
  EXPECT_EQ(words().begun, 1u);
  EXPECT_EQ(words().pages, 2u);
  fence_.decide(verdicts(2, {1}));
  EXPECT_EQ(ready(), std::vector<uint64_t>{1});
}

// A graph may be replayed all the same.
TEST_F(FenceWords, AreClearAfterAFetchThatWasRefused) {
  ASSERT_TRUE(fence_.begin(kPages));
  fence_.decide(verdicts(kPages, {5}));
  const auto refused = fence_.begin(kPages + 1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalid);
  EXPECT_THAT(refused.error().message, HasSubstr("a fetch of 71 pages, and its fence is for 70"));
  EXPECT_TRUE(is_decided());
  EXPECT_TRUE(ready().empty());
  EXPECT_TRUE(fence_.begin(kPages));
}

TEST_F(FenceWords, AreClearIfTheyAreCleared) {
  ASSERT_TRUE(fence_.begin(kPages));
  fence_.decide(verdicts(kPages, {5, 69}));
  EXPECT_TRUE(fence_.clear());
  EXPECT_TRUE(is_decided());
  EXPECT_TRUE(ready().empty());
}

TEST_F(FenceWords, HaveNoReadyPageOfAFetchThatCameToNothing) {
  ASSERT_TRUE(fence_.begin(kPages));
  fence_.decide({});
  EXPECT_TRUE(is_decided());
  EXPECT_TRUE(ready().empty());
}

// The next fetch may begin as soon as the words say that the last one is decided.
TEST_F(FenceWords, AreReadAndBegunAnewWhileAnotherThreadDecides) {
  constexpr uint64_t kRounds = 2000;
  std::atomic<uint64_t> submitted{0};
  std::thread decider([this, &submitted] {
    for (uint64_t round = 1; round <= kRounds; ++round) {
      while (submitted.load() < round) std::this_thread::yield();
      fence_.decide(verdicts(kPages, {round % kPages}));
    }
  });
  for (uint64_t round = 1; round <= kRounds; ++round) {
    EXPECT_TRUE(fence_.begin(kPages)) << round;
    submitted.store(round);
    while (std::atomic_ref(mutable_words().decided).load(std::memory_order_acquire) < round) {
      std::this_thread::yield();
    }
    EXPECT_EQ(ready(), std::vector<uint64_t>{round % kPages});
  }
  decider.join();
}

}  // namespace
}  // namespace farpage
