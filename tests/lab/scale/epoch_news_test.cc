#include "lab/scale/epoch_news.h"

#include <gtest/gtest.h>

#include "base/clock.h"

namespace farpage {
namespace {

constexpr uint64_t kViewNs = 2 * kSecond;
constexpr uint64_t kTellingNs = 70 * kMillisecond;  // 1,000 clients, and the way there and back

// The first of three nodes that hears of it tells its clients, 16 in a millisecond. Renewals, of
// which there are two in a view at each node, are spread over half of one.
TEST(EpochNews, NodesTellClientsAsSoonAsTheyHearAndNoneReadsTheRegister) {
  const EpochNews news = measure_epoch_news({.clients = 1'000});
  EXPECT_EQ(news.clients, 1'000u);
  EXPECT_LE(news.last_ns, kViewNs / 4 + kTellingNs) << "nodes poll this register four times a view";
  EXPECT_LE(news.last_ns - news.median_ns, kTellingNs);
  EXPECT_EQ(news.served, 1);
  EXPECT_LE(news.reads_before, 1'000 * 10 / 100) << "one in a hundred views, for a poor phase";
  EXPECT_LE(news.reads, 2u);
  EXPECT_NEAR(static_cast<double>(news.node_reads_before), 4 * 4 * 10, 10) << "four each a view";
}

TEST(EpochNews, IsTheSameForOneSeed) {
  const EpochNews one = measure_epoch_news({.clients = 20, .seed = 9});
  const EpochNews again = measure_epoch_news({.clients = 20, .seed = 9});
  EXPECT_EQ(one.last_ns, again.last_ns);
  EXPECT_EQ(one.median_ns, again.median_ns);
}

}  // namespace
}  // namespace farpage
