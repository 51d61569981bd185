#include "bench/vtime/link.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <vector>

#include "base/random.h"

namespace farpage::vtime {
namespace {

TEST(Link, DemandsFollowEachOtherAndOverlapTheirLatencies) {
  Link link(100, 10);
  EXPECT_EQ(link.demand(1'000), 1'110u);
  EXPECT_EQ(link.demand(1'000), 1'120u);
  EXPECT_EQ(link.demand(1'005), 1'130u);
  EXPECT_EQ(link.waited_ns(), 10u + 15u);
  EXPECT_EQ(link.demand(5'000), 5'110u);
  EXPECT_EQ(link.waited_ns(), 25u);
}
TEST(Link, PrefetchesBeginWhileItIsFree) {
  Link link(100, 10);
  link.prefetch(1, 7, 1'000);
  link.prefetch(2, 7, 1'000);
  link.prefetch(3, 7, 1'000);
  const auto begun = link.begin_until(1'011);
  ASSERT_EQ(begun.size(), 2u);
  EXPECT_EQ(begun[0].page, 1u);
  EXPECT_EQ(begun[0].issued_in, 7u);
  EXPECT_EQ(begun[0].at_ns, 1'110u);
  EXPECT_EQ(begun[1].at_ns, 1'120u);
}
TEST(Link, ADemandGoesBeforeWhatWaitsAndInterruptsNothing) {
  Link link(100, 10);
  link.prefetch(1, 0, 1'000);
  link.prefetch(2, 0, 1'000);
  EXPECT_EQ(link.begin_until(1'005).size(), 1u);  // 1 is on its way until 1'010
  EXPECT_EQ(link.demand(1'005), 1'120u);
  const auto begun = link.begin_until(2'000);
  ASSERT_EQ(begun.size(), 1u);
  EXPECT_EQ(begun[0].at_ns, 1'130u);
}
TEST(Link, WhatWouldBeginNowComesAfterADemand) {
  Link link(100, 10);
  link.prefetch(1, 0, 1'000);
  EXPECT_TRUE(link.begin_until(1'000).empty());
  EXPECT_EQ(link.demand(1'000), 1'110u);
}
TEST(Link, WhatIsGivenUpNeverBegins) {
  Link link(100, 10);
  link.prefetch(1, 0, 1'000);
  link.prefetch(2, 0, 1'000);
  link.prefetch(3, 0, 1'000);
  const auto begun = link.begin_until(1'001);
  ASSERT_EQ(begun.size(), 1u);
  link.give_up_all();
  EXPECT_TRUE(link.begin_until(9'000).empty());
}

TEST(Link, TimeComesToAnEndAndNotBack) {
  Link link(Link::kMostNs, Link::kMostNs);
  uint64_t last_ns = 0;
  for (int i = 0; i < 20; ++i) {
    const uint64_t arrives_ns = link.demand(Link::kEndNs - 5);
    EXPECT_GE(arrives_ns, last_ns);
    last_ns = arrives_ns;
  }
  EXPECT_GT(last_ns, Link::kEndNs);
}

using prefetch::PageNumber;

// The same, one nanosecond after the other.
class SlowLink {
 public:
  SlowLink(uint64_t latency_ns, uint64_t transfer_ns)
      : latency_ns_(latency_ns), transfer_ns_(transfer_ns) {}

  void demand(PageNumber page) { demands_.push_back(page); }
  void prefetch(PageNumber page) { prefetches_.push_back(page); }
  void give_up_all() { prefetches_.clear(); }
  void pass(uint64_t nanoseconds) {
    for (; nanoseconds > 0; --nanoseconds) {
      if (busy_ns_ > 0) --busy_ns_;
      if (busy_ns_ == 0) begin_one();
      waited_ns_ += demands_.size();
      ++now_ns_;
    }
  }

  uint64_t now_ns() const { return now_ns_; }
  uint64_t waited_ns() const { return waited_ns_; }
  const std::map<PageNumber, uint64_t>& arrivals() const { return arrivals_; }

 private:
  void begin_one() {
    std::deque<PageNumber>& next = demands_.empty() ? prefetches_ : demands_;
    if (next.empty()) return;
    arrivals_[next.front()] = now_ns_ + transfer_ns_ + latency_ns_;
    next.pop_front();
    busy_ns_ = transfer_ns_;
  }

  const uint64_t latency_ns_;
  const uint64_t transfer_ns_;
  uint64_t now_ns_ = 0;
  uint64_t busy_ns_ = 0;
  uint64_t waited_ns_ = 0;  // by demands
  std::deque<PageNumber> demands_;
  std::deque<PageNumber> prefetches_;
  std::map<PageNumber, uint64_t> arrivals_;
};

RC_GTEST_PROP(LinkProperty, IsOneServerBeforeTwoQueues, (uint32_t seed)) {
  Random random(seed);
  const uint64_t latency_ns = random.below(20);
  const uint64_t transfer_ns = 1 + random.below(10);
  Link link(latency_ns, transfer_ns);
  SlowLink slow(latency_ns, transfer_ns);
  std::map<PageNumber, uint64_t> arrivals;
  const auto begin = [&] {
    uint64_t last_ns = 0;
    for (const Link::Arrival& begun : link.begin_until(slow.now_ns())) {
      RC_ASSERT(begun.at_ns > last_ns);
      RC_ASSERT(begun.issued_in == begun.page + uint64_t{1});
      last_ns = arrivals[begun.page] = begun.at_ns;
    }
  };
  PageNumber page = 0;
  for (int time = 0; time < 100; ++time) {
    begin();
    for (uint64_t i = random.below(3); i > 0; --i) {
      arrivals[page] = link.demand(slow.now_ns());
      slow.demand(page++);
    }
    for (uint64_t i = random.below(4); i > 0; --i) {
      link.prefetch(page, page + uint64_t{1}, slow.now_ns());
      slow.prefetch(page++);
    }
    if (random.below(10) == 0) {
      link.give_up_all();
      slow.give_up_all();
    }
    slow.pass(random.below(30));
  }
  slow.pass(10'000);
  begin();
  RC_ASSERT(arrivals == slow.arrivals());
  RC_ASSERT(link.waited_ns() == slow.waited_ns());
}

}  // namespace
}  // namespace farpage::vtime
