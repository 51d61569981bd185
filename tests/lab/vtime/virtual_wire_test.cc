#include "lab/vtime/virtual_wire.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <deque>
#include <map>
#include <vector>

#include "base/random.h"

namespace farpage::vtime {
namespace {

using prefetch::PageNumber;

// A page of 10 bytes takes 10 ns and arrives 100 ns later.
const TierOptions kTier = {.latency_ns = 100, .bytes_per_s = 1'000'000'000, .capacity_pages = 0};

VirtualWire wire_with(PageNumber pages, const TierOptions& tier = kTier) {
  VirtualWire wire({tier}, 10);
  for (PageNumber page = 0; page < pages; ++page) wire.keep(page);
  return wire;
}

TEST(VirtualWire, PagesFollowEachOtherAndOverlapTheirLatencies) {
  VirtualWire wire = wire_with(3);
  wire.demand(0);
  EXPECT_TRUE(wire.begin(1));
  wire.demand(2);
  EXPECT_EQ(wire.waited_ns(), 20u);  // by 2, and no prefetch's
  const std::vector<uint64_t> times_ns = {110, 120, 130};
  for (PageNumber page = 0; page < 3; ++page) {
    const auto landed = wire.next(1'000);
    ASSERT_TRUE(landed.has_value());
    EXPECT_EQ(landed->page, page);
    EXPECT_EQ(landed->is_demand, page != 1);
    EXPECT_EQ(wire.now_ns(), times_ns[page]);
  }
}

TEST(VirtualWire, TimePassesUntilItShouldAndNotBack) {
  VirtualWire wire = wire_with(1);
  wire.demand(0);
  EXPECT_FALSE(wire.next(109).has_value());
  EXPECT_EQ(wire.now_ns(), 109u);
  EXPECT_TRUE(wire.next(110).has_value());
  EXPECT_FALSE(wire.next(50).has_value());
  EXPECT_EQ(wire.now_ns(), 110u);
}

TEST(VirtualWire, TimeComesToAnEnd) {
  VirtualWire wire =
      wire_with(1, {.latency_ns = VirtualWire::kMostNs, .bytes_per_s = 1, .capacity_pages = 0});
  uint64_t last_ns = 0;
  for (int i = 0; i < 20; ++i) {
    wire.demand(0);
    while (wire.next(UINT64_MAX / 2)) {
    }
    EXPECT_GE(wire.now_ns(), last_ns);
    last_ns = wire.now_ns();
  }
  EXPECT_GT(last_ns, VirtualWire::kEndNs);
}

// The same, one nanosecond after the other.
class SlowWire {
 public:
  SlowWire(uint64_t latency_ns, uint64_t transfer_ns)
      : latency_ns_(latency_ns), transfer_ns_(transfer_ns) {}

  void begin(PageNumber page) { queue_.push_back({page, false}); }
  void demand(PageNumber page) { queue_.push_back({page, true}); }
  void pass(uint64_t nanoseconds) {
    for (; nanoseconds > 0; --nanoseconds) {
      if (busy_ns_ > 0) --busy_ns_;
      if (busy_ns_ == 0 && !queue_.empty()) {
        arrivals_[queue_.front().page] = now_ns_ + transfer_ns_ + latency_ns_;
        queue_.pop_front();
        busy_ns_ = transfer_ns_;
      }
      for (const Queued& each : queue_) waited_ns_ += each.is_demand ? 1 : 0;
      ++now_ns_;
    }
  }

  uint64_t waited_ns() const { return waited_ns_; }
  const std::map<PageNumber, uint64_t>& arrivals() const { return arrivals_; }

 private:
  struct Queued {
    PageNumber page;
    bool is_demand;
  };

  const uint64_t latency_ns_;
  const uint64_t transfer_ns_;
  uint64_t now_ns_ = 0;
  uint64_t busy_ns_ = 0;
  uint64_t waited_ns_ = 0;
  std::deque<Queued> queue_;
  std::map<PageNumber, uint64_t> arrivals_;
};

RC_GTEST_PROP(VirtualWireProperty, IsOneServerBeforeOneQueue, (uint32_t seed)) {
  Random random(seed);
  const uint64_t latency_ns = random.below(20);
  const uint64_t transfer_ns = 1 + random.below(10);
  VirtualWire wire({{latency_ns, 1'000'000'000, 0}}, transfer_ns);
  SlowWire slow(latency_ns, transfer_ns);
  std::map<PageNumber, uint64_t> arrivals;
  PageNumber page = 0;
  const auto pass = [&](uint64_t nanoseconds) {
    const uint64_t until_ns = wire.now_ns() + nanoseconds;
    while (const auto landed = wire.next(until_ns)) arrivals[landed->page] = wire.now_ns();
    slow.pass(nanoseconds);
  };
  for (int time = 0; time < 100; ++time) {
    for (uint64_t i = random.below(4); i > 0; --i, ++page) {
      wire.keep(page);
      if (random.below(2) == 0) {
        wire.demand(page);
        slow.demand(page);
      } else {
        wire.begin(page);
        slow.begin(page);
      }
    }
    pass(random.below(30));
  }
  pass(10'000);
  RC_ASSERT(arrivals == slow.arrivals());
  RC_ASSERT(wire.waited_ns() == slow.waited_ns());
}

}  // namespace
}  // namespace farpage::vtime
