// How long announced pages stay.
#include "tests/tier/ahead/prefetch_fixture.h"

namespace farpage {
namespace {

class Announcements : public PrefetchTest {
 protected:
  Announcements() { put_all(4); }

  std::vector<PageKey> keys(uint64_t count) {
    std::vector<PageKey> keys;
    for (uint64_t number = 0; number < count; ++number) keys.push_back(test_key(number));
    return keys;
  }
};

TEST_F(Announcements, EndByThemselvesAtTheirTime) {
  lane_.announce(keys(3), now() + 2 * kMillisecond);
  drive(kMillisecond);
  EXPECT_EQ(lane_.report().here, 3u);
  drive(2 * kMillisecond);
  EXPECT_EQ(lane_.report().here, 0u);
  EXPECT_EQ(lane_.report().pages.unused, 3u);
  expect_accounted(lane_.report(), 0);
}

TEST_F(Announcements, OfOnePageTheLastOneCounts) {
  const uint64_t begun_ns = now();
  lane_.announce(keys(1), begun_ns + 4 * kMillisecond);
  lane_.announce(keys(1), begun_ns + 2 * kMillisecond);
  lane_.announce(keys(2), begun_ns + 3 * kMillisecond);
  drive(3'500 * kMicrosecond);
  EXPECT_EQ(lane_.report().here, 1u);
  lane_.announce(keys(1));
  drive(10 * kMillisecond);
  EXPECT_EQ(lane_.report().here, 1u) << "without end";
  lane_.withdraw(keys(1));
  EXPECT_EQ(lane_.report().here, 1u) << "it was announced more often";
}

TEST_F(Announcements, ADemandEndsThemAndTheNextCountAnew) {
  const uint64_t begun_ns = now();
  lane_.announce(keys(1), begun_ns + 2 * kMillisecond);
  drive(kMillisecond);
  EXPECT_EQ(put_number(demand_now({0})), 100u);
  lane_.announce(keys(1), begun_ns + 20 * kMillisecond);
  drive(10 * kMillisecond);
  EXPECT_EQ(lane_.report().here, 1u) << "the first one was over with its demand";
  EXPECT_EQ(put_number(demand_now({0})), 100u);
  lane_.announce(keys(1), now() + 2 * kMillisecond);
  drive(4 * kMillisecond);
  EXPECT_EQ(lane_.report().here, 0u) << "and so was the second one, which was longer";
  expect_accounted(lane_.report(), 0);
}

TEST_F(Announcements, EndBeforeTheirPagesHaveCome) {
  set_delay(kMillisecond);
  lane_.announce(keys(1), now() + kMillisecond / 2);
  lane_.progress();
  ASSERT_EQ(lane_.report().under_way, 1u);
  for (int turns = 0; turns < 10 && lane_.report().under_way > 0; ++turns) drive(kMillisecond);
  EXPECT_EQ(lane_.prefetch_stats().pages_ready, 1u);
  EXPECT_EQ(lane_.report().here, 0u);
  EXPECT_EQ(lane_.report().pages.unused, 1u);
  expect_accounted(lane_.report(), 0);
}

TEST_F(Announcements, EndWhileTheyWaitForRoom) {
  put_all(20);
  lane_.announce(keys(20), now() + kMillisecond);
  drive(500 * kMicrosecond);
  EXPECT_EQ(lane_.report().here, 8u) << "as many as there are places";
  EXPECT_EQ(lane_.report().waiting, 12u);
  drive(kMillisecond);
  EXPECT_EQ(lane_.report().here, 0u);
  EXPECT_EQ(lane_.report().waiting, 0u);
  expect_accounted(lane_.report(), 0);
}

// An end that nothing but the clock tells of ends a wait.
TEST_F(Announcements, AWaitEndsWithThem) {
  lane_.announce(keys(2), now() + 2 * kMillisecond);
  const uint64_t until_ns = now() + kSecond;
  for (int turns = 0; turns < 1'000 && lane_.report().here < 2; ++turns) lane_.wait(until_ns);
  ASSERT_EQ(lane_.report().here, 2u);
  for (int turns = 0; turns < 1'000 && lane_.report().here > 0; ++turns) lane_.wait(until_ns);
  EXPECT_EQ(lane_.report().here, 0u);
  EXPECT_LT(now(), until_ns);
}

}  // namespace
}  // namespace farpage
