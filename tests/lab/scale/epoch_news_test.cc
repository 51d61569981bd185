#include "lab/scale/epoch_news.h"

#include <gtest/gtest.h>

#include "base/clock.h"

namespace farpage {
namespace {

constexpr uint64_t kViewNs = 2 * kSecond;

TEST(EpochNews, ClientsThatPollKnowItWithinAQuarterOfTheirView) {
  const EpochNews news = measure_epoch_news({.clients = 500, .members = 4});
  EXPECT_EQ(news.clients, 500u);
  EXPECT_LE(news.last_ns, kViewNs / 4 + 2 * kMillisecond);
  EXPECT_GE(news.last_ns, kViewNs / 4 - 20 * kMillisecond) << "they come at times of their own";
  EXPECT_GT(news.median_ns, kViewNs / 16);
  EXPECT_LT(news.median_ns, news.last_ns);
  EXPECT_EQ(news.reads_before, 500 * 4u);
  EXPECT_EQ(news.served, 1);
}

TEST(EpochNews, EveryWriteMakesEveryWatcherRead) {
  const EpochNews news =
      measure_epoch_news({.clients = 20, .members = 9, .watches = true, .confirmations = 8});
  EXPECT_EQ(news.reads_before, 20 * 4u);
  EXPECT_EQ(news.reads, 20 * (4 + 1 + 8u)) << "four anyway, the epoch, and each confirmation";
  EXPECT_LE(news.last_ns, 2 * kMillisecond);
}

TEST(EpochNews, RegisterThatAnswersTooFewReadsLosesItsClients) {
  const EpochNews enough =
      measure_epoch_news({.clients = 100, .members = 2, .read_busy_ns = 4 * kMillisecond});
  EXPECT_EQ(enough.served, 1) << "it takes 500 reads in V, of which it serves them all";
  const EpochNews few =
      measure_epoch_news({.clients = 100, .members = 2, .read_busy_ns = 100 * kMillisecond});
  EXPECT_LT(few.served, 0.5) << "it answers 20 of 400";
}

TEST(EpochNews, IsTheSameForOneSeed) {
  const EpochNews one = measure_epoch_news({.clients = 50, .members = 3, .seed = 9});
  const EpochNews again = measure_epoch_news({.clients = 50, .members = 3, .seed = 9});
  EXPECT_EQ(one.last_ns, again.last_ns);
  EXPECT_EQ(one.median_ns, again.median_ns);
}

}  // namespace
}  // namespace farpage
