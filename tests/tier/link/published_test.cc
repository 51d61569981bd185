#include "tier/link/published.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

namespace farpage {
namespace {

// One that another thread holds, if a test says so: to wait for it is a failure.
struct HeldMutex {
  static inline bool held = false;

  void lock() {
    EXPECT_FALSE(held) << "waits for another thread";
    held = true;
  }
  bool try_lock() { return !std::exchange(held, true); }
  void unlock() { held = false; }
};

class PublishedTest : public testing::Test {
 protected:
  ~PublishedTest() override { HeldMutex::held = false; }

  Published<int, HeldMutex> published_;
  std::shared_ptr<int> taken_ = std::make_shared<int>(7);
  uint64_t number_ = 70;
};

TEST_F(PublishedTest, NothingIsThereBeforeTheFirst) {
  EXPECT_EQ(published_.get(), nullptr);
  ASSERT_TRUE(published_.try_take(taken_, number_));
  EXPECT_EQ(taken_, nullptr);
  EXPECT_EQ(number_, published_.number());
}

TEST_F(PublishedTest, WhatIsTakenIsTheNewestWithItsNumber) {
  const auto first = std::make_shared<int>(1);
  const auto second = std::make_shared<int>(2);
  EXPECT_EQ(published_.publish(first), nullptr);
  const uint64_t first_number = published_.number();
  EXPECT_EQ(published_.publish(second), first);
  EXPECT_NE(published_.number(), first_number);
  EXPECT_EQ(published_.get(), second);
  ASSERT_TRUE(published_.try_take(taken_, number_));
  EXPECT_EQ(taken_, second);
  EXPECT_EQ(number_, published_.number());
}

TEST_F(PublishedTest, ATouchChangesTheNumberAndNotTheObject) {
  const auto first = std::make_shared<int>(1);
  (void)published_.publish(first);
  ASSERT_TRUE(published_.try_take(taken_, number_));
  published_.touch();
  EXPECT_NE(published_.number(), number_);
  ASSERT_TRUE(published_.try_take(taken_, number_));
  EXPECT_EQ(taken_, first);
  EXPECT_EQ(published_.number(), number_);
}

TEST_F(PublishedTest, WhoMustNotWaitTakesNothingWhileAnotherThreadIsAtIt) {
  (void)published_.publish(std::make_shared<int>(1));
  HeldMutex::held = true;
  EXPECT_FALSE(published_.try_take(taken_, number_));
  EXPECT_TRUE(HeldMutex::held);
  EXPECT_EQ(*taken_, 7);
  EXPECT_EQ(number_, 70u);
  HeldMutex::held = false;
  ASSERT_TRUE(published_.try_take(taken_, number_));
  EXPECT_EQ(*taken_, 1);
}

// Its destructor may do work, for which nobody is to wait.
TEST_F(PublishedTest, WhatIsReplacedIsDestroyedOutsideTheLock) {
  std::weak_ptr<int> first;
  {
    const auto object = std::shared_ptr<int>(new int(1), [this](int* gone) {
      EXPECT_NE(published_.get(), nullptr);
      delete gone;
    });
    first = object;
    (void)published_.publish(object);
  }
  ASSERT_TRUE(published_.try_take(taken_, number_));
  std::shared_ptr<int> replaced = published_.publish(std::make_shared<int>(2));
  EXPECT_EQ(first.use_count(), 2);
  replaced.reset();
  ASSERT_TRUE(published_.try_take(taken_, number_));  // the last one who had it
  EXPECT_TRUE(first.expired());
  EXPECT_EQ(*taken_, 2);
}

}  // namespace
}  // namespace farpage
