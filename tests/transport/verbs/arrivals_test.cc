// Where dialled connections arrive; these are connected to nobody.
#include <gtest/gtest.h>

#include <future>

#include "base/clock.h"
#include "transport/verbs/dialer.h"

namespace farpage::verbs {
namespace {

std::unique_ptr<SendQueue> connection_on(size_t device) {
  auto connection = std::make_unique<Connection>();
  connection->device = device;
  return std::make_unique<SendQueue>(std::move(connection), std::make_shared<PathCounters>());
}

uint64_t in(uint64_t ns) {
  return boottime_clock().now_ns() + ns;
}

TEST(Arrivals, WhatArrivesIsTakenOnce) {
  Arrivals arrivals;
  EXPECT_FALSE(arrivals.any());
  bool ended = true;
  EXPECT_EQ(arrivals.take(1, ended), nullptr);
  EXPECT_FALSE(ended);
  arrivals.bring(1, connection_on(5));
  EXPECT_TRUE(arrivals.any());
  EXPECT_EQ(arrivals.take(0, ended), nullptr);
  EXPECT_FALSE(ended);
  EXPECT_TRUE(arrivals.any());
  const auto taken = arrivals.take(1, ended);
  EXPECT_TRUE(ended);
  ASSERT_NE(taken, nullptr);
  EXPECT_EQ(taken->device(), 5u);
  EXPECT_FALSE(arrivals.any());
  EXPECT_EQ(arrivals.take(1, ended), nullptr);
  EXPECT_FALSE(ended);
}

TEST(Arrivals, WhatDidNotComeAboutHasEndedAllTheSame) {
  Arrivals arrivals;
  arrivals.bring(0, fail(Code::kUnavailable, "refused"));
  EXPECT_TRUE(arrivals.any());
  bool ended = false;
  EXPECT_EQ(arrivals.take(0, ended), nullptr);
  EXPECT_TRUE(ended);
}

TEST(Arrivals, TheFirstIsEnoughOnceTheOthersHadTheirTime) {
  Arrivals arrivals;
  arrivals.bring(2, connection_on(0));
  const uint64_t begin_ns = boottime_clock().now_ns();
  EXPECT_TRUE(arrivals.wait_for_first(3, 20 * kMillisecond, in(60 * kSecond)));
  EXPECT_GE(boottime_clock().now_ns() - begin_ns, 20 * kMillisecond);
  EXPECT_LT(boottime_clock().now_ns() - begin_ns, 30 * kSecond);
}

TEST(Arrivals, NobodyWaitsLongerThanForAll) {
  Arrivals arrivals;
  arrivals.bring(0, connection_on(0));
  arrivals.bring(1, fail(Code::kUnavailable, "refused"));
  const uint64_t begin_ns = boottime_clock().now_ns();
  EXPECT_TRUE(arrivals.wait_for_first(2, 60 * kSecond, in(60 * kSecond)));
  EXPECT_LT(boottime_clock().now_ns() - begin_ns, 30 * kSecond);
}

TEST(Arrivals, WhoWaitsIsWoken) {
  Arrivals arrivals;
  auto waiting = std::async(std::launch::async, [&] {
    return arrivals.wait_for_first(2, 60 * kSecond, in(60 * kSecond)).has_value();
  });
  arrivals.bring(1, fail(Code::kUnavailable, "refused"));
  arrivals.bring(0, connection_on(0));
  ASSERT_EQ(waiting.wait_for(std::chrono::seconds(30)), std::future_status::ready);
  EXPECT_TRUE(waiting.get());
}

TEST(Arrivals, IfNoneComesItIsSaidWhy) {
  Arrivals arrivals;
  const auto late = arrivals.wait_for_first(2, 0, in(0));
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Code::kTimeout);
  arrivals.bring(0, fail(Code::kUnavailable, "the first"));
  arrivals.bring(1, fail(Code::kDenied, "the last"));
  const auto none = arrivals.wait_for_first(2, 0, in(60 * kSecond));
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().message, "the last");
}

TEST(Arrivals, WhatComesAfterTheEndIsDropped) {
  Arrivals arrivals;
  arrivals.bring(0, connection_on(0));
  EXPECT_FALSE(arrivals.is_closed());
  arrivals.close();
  EXPECT_TRUE(arrivals.is_closed());
  arrivals.bring(1, connection_on(1));
  bool ended = false;
  EXPECT_EQ(arrivals.take(0, ended), nullptr);
  EXPECT_EQ(arrivals.take(1, ended), nullptr);
  EXPECT_FALSE(ended);
}

}  // namespace
}  // namespace farpage::verbs
