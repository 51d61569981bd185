#include "lab/scale/epoch_news.h"

#include <gtest/gtest.h>

#include "base/clock.h"

namespace farpage {
namespace {

constexpr uint64_t kViewNs = 2 * kSecond;

// A client that rests renews at each of three nodes twice in a view.
TEST(EpochNews, NodesTellClientsWithinHalfAViewAndNoneReadsTheRegister) {
  const EpochNews news = measure_epoch_news({.clients = 200});
  EXPECT_EQ(news.clients, 200u);
  EXPECT_LE(news.last_ns, kViewNs / 2);
  EXPECT_GT(news.median_ns, kViewNs / 100) << "they renew at times of their own";
  EXPECT_LT(news.median_ns, news.last_ns);
  EXPECT_EQ(news.served, 1);
  EXPECT_LE(news.reads_before, 200 * 10 / 100) << "one in a hundred views, for a poor phase";
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
