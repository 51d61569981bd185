#include "prefetch/prefetch_window.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace farpage::prefetch {
namespace {

constexpr uint64_t kUsualNs = 10'000;
constexpr auto kPage = PrefetchWindow::Read::kPage;
constexpr auto kHeader = PrefetchWindow::Read::kHeader;

// Knows what is usual.
PrefetchWindow window_of(uint32_t most) {
  PrefetchWindow window(most);
  for (int i = 0; i < 20; ++i) window.on_demand(kPage, kUsualNs, false);
  return window;
}

void land(PrefetchWindow& window, int pages) {
  for (; pages > 0; --pages) window.on_landed();
}

TEST(PrefetchWindow, GrowsByOneForEachWindowThatLands) {
  PrefetchWindow window = window_of(8);
  EXPECT_EQ(window.pages(), 4u);
  land(window, 4);
  EXPECT_EQ(window.pages(), 5u);
  land(window, 4);
  EXPECT_EQ(window.pages(), 5u);
  land(window, 1);
  EXPECT_EQ(window.pages(), 6u);
  land(window, 1'000);
  EXPECT_EQ(window.pages(), 8u);
}

TEST(PrefetchWindow, IsNeverWiderThanItMayBe) {
  EXPECT_EQ(PrefetchWindow(2).pages(), 2u);
  EXPECT_EQ(PrefetchWindow(0).pages(), 0u);
}

TEST(PrefetchWindow, IsHalvedByADemandThatFeelsIt) {
  PrefetchWindow window = window_of(32);
  land(window, 1'000);
  EXPECT_EQ(window.pages(), 32u);
  window.on_demand(kPage, kUsualNs * 104 / 100, true);
  EXPECT_EQ(window.pages(), 32u);
  window.on_demand(kPage, kUsualNs * 106 / 100, true);
  EXPECT_EQ(window.pages(), 16u);
  // Those that were under way do not make up for it.
  land(window, 32 + 15);
  EXPECT_EQ(window.pages(), 16u);
  land(window, 1);
  EXPECT_EQ(window.pages(), 17u);
}

TEST(PrefetchWindow, ToleratesWhatDemandsVaryByThemselves) {
  Random random(1);
  PrefetchWindow window(32);
  for (int i = 0; i < 1'000; ++i) window.on_demand(kPage, 5'000 + random.below(10'000), false);
  land(window, 1'000);
  window.on_demand(kPage, 14'999, true);
  EXPECT_EQ(window.pages(), 32u);
  window.on_demand(kPage, 30'000, true);
  EXPECT_EQ(window.pages(), 16u);
}

TEST(PrefetchWindow, SlowDemandsBesideWhichNothingIsChangeWhatIsUsual) {
  PrefetchWindow window = window_of(32);
  for (int i = 0; i < 100; ++i) window.on_demand(kPage, 3 * kUsualNs, false);
  EXPECT_EQ(window.pages(), 4u);
  EXPECT_NEAR(window.usual_ns(), 3 * kUsualNs, 1);
  window.on_demand(kPage, 3 * kUsualNs, true);
  EXPECT_EQ(window.pages(), 4u);
}

TEST(PrefetchWindow, PausesLongerAndLongerWhereEvenOnePageIsFelt) {
  PrefetchWindow window = window_of(32);
  window.on_demand(kPage, 2 * kUsualNs, true);
  window.on_demand(kPage, 2 * kUsualNs, true);
  EXPECT_EQ(window.pages(), 1u);
  const auto pause = [&] {
    window.on_demand(kPage, 2 * kUsualNs, true);
    int plans = 0;
    for (; window.pages() == 0; ++plans) window.on_plan();
    EXPECT_EQ(window.pages(), 1u);
    return plans;
  };
  EXPECT_EQ(pause(), 1);
  EXPECT_EQ(pause(), 2);
  EXPECT_EQ(pause(), 4);
  for (int i = 0; i < 20; ++i) pause();
  EXPECT_EQ(pause(), 256);
  for (int i = 0; i < 256; ++i) window.on_demand(kPage, kUsualNs, true);
  window.on_demand(kPage, kUsualNs, false);
  EXPECT_EQ(pause(), 1);
}

// A header is read sooner than a page, and is beside other headers usual or not.
TEST(PrefetchWindow, HeadersAreComparedWithHeaders) {
  PrefetchWindow window = window_of(32);
  for (int i = 0; i < 20; ++i) window.on_demand(kHeader, kUsualNs / 10, false);
  land(window, 1'000);
  window.on_demand(kHeader, kUsualNs / 10, true);
  EXPECT_EQ(window.pages(), 32u);
  window.on_demand(kHeader, kUsualNs / 2, true);
  EXPECT_EQ(window.pages(), 16u);
  window.on_demand(kPage, kUsualNs, true);
  EXPECT_EQ(window.pages(), 16u);
  EXPECT_NEAR(window.usual_ns(), kUsualNs, 1);
}

TEST(PrefetchWindow, IsHalvedByADemandThatWaitedInVain) {
  PrefetchWindow window(8);
  window.on_waited_in_vain();
  EXPECT_EQ(window.pages(), 2u);
}

// Or what is usual would never be known, or be what it once was.
TEST(PrefetchWindow, IsHeldBackNowAndThenWhereEveryDemandIsBesideIt) {
  PrefetchWindow window(32);
  int held_back = 0;
  for (int step = 0; step < 650; ++step) {
    window.on_plan();
    const bool beside = window.pages() > 0;
    held_back += beside ? 0 : 1;
    window.on_demand(kPage, kUsualNs, beside);
  }
  EXPECT_EQ(held_back, 10);
  EXPECT_NEAR(window.usual_ns(), kUsualNs, 1);
}

}  // namespace
}  // namespace farpage::prefetch
