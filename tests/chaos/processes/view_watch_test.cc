#include "chaos/processes/view_watch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>

#include "base/clock.h"

namespace farpage::processes {
namespace {

// A client that has a view as a test says.
struct Watched {
  std::atomic<bool> has_view = true;
  std::atomic<int> looks = 0;

  std::function<bool()> view() {
    return [this] {
      ++looks;
      return has_view.load();
    };
  }
  void await_looks(int more) const {
    const int until = looks + more;
    while (looks < until) std::this_thread::yield();
  }
};

TEST(ViewWatch, ClientsThatHaveTheirViewsAllTheTimeLackNone) {
  Watched one;
  Watched other;
  ViewWatch watch({one.view(), other.view()});
  other.await_looks(5);
  watch.stop();
  EXPECT_EQ(watch.longest_ns(), 0u);
}

TEST(ViewWatch, LongestTimeOfAnyClientCounts) {
  Watched one;
  Watched other;
  ViewWatch watch({one.view(), other.view()});
  other.await_looks(2);
  const uint64_t seen_ns = boottime_clock().now_ns();
  other.await_looks(20);
  const uint64_t lost_ns = boottime_clock().now_ns();
  other.has_view = false;
  other.await_looks(20);
  const uint64_t found_ns = boottime_clock().now_ns();
  other.has_view = true;
  other.await_looks(2);
  one.has_view = false;  // for less long
  one.await_looks(2);
  one.has_view = true;
  one.await_looks(2);
  watch.stop();
  EXPECT_GE(watch.longest_ns(), found_ns - lost_ns);
  EXPECT_LE(watch.longest_ns(), boottime_clock().now_ns() - seen_ns);
}

TEST(ViewWatch, ClientThatHasNoneAtTheEndLacksItUntilThen) {
  Watched client;
  ViewWatch watch({client.view()});
  client.await_looks(2);
  const uint64_t lost_ns = boottime_clock().now_ns();
  client.has_view = false;
  client.await_looks(10);
  const uint64_t stopped_ns = boottime_clock().now_ns();
  watch.stop();
  EXPECT_GE(watch.longest_ns(), stopped_ns - lost_ns);
}

}  // namespace
}  // namespace farpage::processes
