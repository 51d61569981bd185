// Pages fetched ahead of their fetches.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "tests/client/farpage_pages.h"
#include "tests/support/cluster.h"

namespace farpage {
namespace {

constexpr uint64_t kForever = UINT64_MAX;
constexpr uint64_t kPages = 16;

OpenOptions ahead_of(OpenOptions options) {
  options.ahead.pages = 2 * kPages;
  return options;
}

OpenOptions over(const Cluster& cluster) {
  OpenOptions options;
  options.node = format_address(cluster.address());
  options.client.staging_bytes = kMiB;
  return options;
}

// Whether it comes to be so, in all the time that it needs.
bool comes_true(const std::function<bool()>& is_so) {
  const uint64_t patience_ns = boottime_clock().now_ns() + 30 * kSecond;
  while (!is_so()) {
    if (boottime_clock().now_ns() > patience_ns) return false;
    std::this_thread::yield();
  }
  return true;
}

// By one who says more at one time than the client's thread may have taken.
bool is_taken(const Result<void>& said) {
  return said || said.error().code == Code::kExhausted;
}

std::vector<PageKey> keys_of(size_t count, size_t first = 0) {
  std::vector<PageKey> keys;
  for (size_t i = 0; i < count; ++i) keys.push_back(key(first + i));
  return keys;
}

bool are_ready(const Ticket& ticket) {
  ticket.wait();
  return std::ranges::all_of(ticket.verdicts(), [](const PageVerdict& verdict) {
    return verdict.verdict == Verdict::kReady;
  });
}

class AheadOver : public testing::TestWithParam<Path> {
 protected:
  void announce(uint64_t count) {
    const uint64_t before = tier_->statistics().fetched_ahead;
    ASSERT_TRUE(tier_->announce(keys_of(count), kForever));
    ASSERT_TRUE(comes_true([&] { return tier_->statistics().fetched_ahead == before + count; }));
  }

  Cluster cluster_{GetParam()};
  std::unique_ptr<Farpage> tier_ = open(ahead_of(over(cluster_)));
};

TEST_P(AheadOver, AnAnnouncedPageIsNearWhenItIsFetched) {
  const Pages sources(*tier_, kPages, 1);
  put_all(*tier_, sources);
  announce(kPages);
  EXPECT_TRUE(comes_true([&] { return tier_->statistics().ahead_places == kPages; }));
  const Pages landed(*tier_, kPages, 100);
  const Ticket ticket = tier_->fetch(fetches(landed), kTimeoutUs).value();
  ASSERT_TRUE(are_ready(ticket));
  for (size_t i = 0; i < kPages; ++i) {
    EXPECT_TRUE(std::ranges::equal(landed.page(i), sources.page(i)));
    EXPECT_EQ(ticket.verdicts()[i].landed, landed.slice(i).data);
    EXPECT_GT(ticket.verdicts()[i].version, 0u);
  }
  const Statistics counts = tier_->statistics();
  EXPECT_EQ(counts.near, kPages);
  EXPECT_EQ(counts.verdicts.ready, kPages) << "a page that was fetched ahead counts once";
  EXPECT_EQ(counts.verdicts.ready_bytes, kPages * kPageBytes);
  EXPECT_EQ(counts.fetched_ahead, kPages);
  EXPECT_TRUE(comes_true([&] { return tier_->statistics().ahead_places == 0; }));
}

TEST_P(AheadOver, WhatNobodyAnnouncedIsFetchedAsWithoutIt) {
  put_all(*tier_, Pages(*tier_, 4, 1));
  const Pages landed(*tier_, 5, 100);
  const Ticket ticket = tier_->fetch(fetches(landed), kTimeoutUs).value();
  ticket.wait();
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(landed.page(i)[9], static_cast<std::byte>(1 + i));
  EXPECT_EQ(ticket.verdicts()[4].reason, Reason::kMiss);
  const Statistics counts = tier_->statistics();
  EXPECT_EQ(counts.verdicts.ready, 4u);
  EXPECT_EQ(counts.verdicts.miss, 1u);
  EXPECT_EQ(counts.recompute(), 1u);
  EXPECT_EQ(counts.near, 0u);
}

TEST_P(AheadOver, APutAfterItCameWins) {
  for (uint8_t round = 0; round < 20; ++round) {
    put_all(*tier_, Pages(*tier_, 2, 1));
    announce(2);
    const Pages newer(*tier_, 2, static_cast<uint8_t>(50 + round));
    const Ticket put = tier_->put(puts(newer), kTimeoutUs).value();
    put.wait();
    const Pages landed(*tier_, 2, 200);
    auto requests = fetches(landed);
    requests[0].min_version = put.results()[0].version;
    const Ticket ticket = tier_->fetch(requests, kTimeoutUs).value();
    ASSERT_TRUE(are_ready(ticket));
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(ticket.verdicts()[i].version, put.results()[i].version);
      EXPECT_TRUE(std::ranges::equal(landed.page(i), newer.page(i)));
    }
  }
  EXPECT_EQ(tier_->statistics().near, 0u);
}

TEST_P(AheadOver, AWithdrawnPageGivesItsPlaceBack) {
  put_all(*tier_, Pages(*tier_, 3, 1));
  announce(3);
  ASSERT_TRUE(tier_->withdraw(keys_of(2)));
  EXPECT_TRUE(comes_true([&] { return tier_->statistics().ahead_places == 1; }));
  ASSERT_TRUE(tier_->withdraw(keys_of(3)));
  EXPECT_TRUE(comes_true([&] { return tier_->statistics().ahead_places == 0; }));
}

// A page may be that which the thread of the client's works on, asleep, or about to sleep.
TEST_P(AheadOver, NoAnnouncementIsLostOnASleepingThread) {
  put_all(*tier_, Pages(*tier_, kPages, 1));
  for (size_t round = 0; round < 200; ++round) {
    const uint64_t before = tier_->statistics().fetched_ahead;
    const auto keys = keys_of(1, round % kPages);
    ASSERT_TRUE(tier_->announce(keys, kForever));
    ASSERT_TRUE(comes_true([&] { return tier_->statistics().fetched_ahead > before; }));
    ASSERT_TRUE(tier_->withdraw(keys));
    ASSERT_TRUE(comes_true([&] { return tier_->statistics().ahead_places == 0; })) << round;
  }
}

TEST_P(AheadOver, ManyThreadsAnnounceBesideFetches) {
  const Pages sources(*tier_, kPages, 1);
  put_all(*tier_, sources);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (size_t number = 0; number < 8; ++number) {
    threads.emplace_back([&, number] {
      const size_t first = 2 * number;
      const Pages landed(*tier_, 2, 200);
      std::vector<ObservedAccess> accesses;
      for (const PageKey& each : keys_of(2, first)) accesses.push_back({.key = each});
      for (uint64_t round = 0; round < 50; ++round) {
        for (ObservedAccess& access : accesses) access.step = round;
        if (!tier_->observe(accesses)) ++wrong;
        if (!tier_->announce(keys_of(3, first), round % 2 == 0 ? kForever : 1'000)) ++wrong;
        const Ticket ticket = tier_->fetch(fetches(landed, first), kTimeoutUs).value();
        if (!tier_->withdraw(keys_of(3, first))) ++wrong;
        if (!tier_->mark_milestones(keys_of(1, first))) ++wrong;
        if (!are_ready(ticket)) ++wrong;
        for (size_t i = 0; i < 2; ++i) {
          if (!std::ranges::equal(landed.page(i), sources.page(first + i))) ++wrong;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(tier_->statistics().verdicts.ready, 8u * 50 * 2);
  EXPECT_GT(tier_->statistics().fetched_ahead, 0u);
}

TEST_P(AheadOver, ANodeThatGoesLeavesNoFetchWaiting) {
  const Pages sources(*tier_, kPages, 1);
  put_all(*tier_, sources);
  std::atomic<int> fetched = 0;
  std::atomic<int> wrong = 0;
  std::atomic<bool> is_over = false;
  std::vector<std::thread> threads;
  for (int number = 0; number < 4; ++number) {
    threads.emplace_back([&] {
      const Pages landed(*tier_, kPages, 200);
      while (!is_over) {
        if (!tier_->announce(keys_of(kPages), kForever)) continue;
        const auto ticket = tier_->fetch(fetches(landed), 50'000);
        if (!ticket) continue;
        if (!ticket->wait_until(tier_->clock().now_ns() + 20 * kSecond)) ++wrong;
        for (size_t i = 0; i < kPages; ++i) {
          const bool is_ready = ticket->verdicts()[i].verdict == Verdict::kReady;
          if (is_ready && !std::ranges::equal(landed.page(i), sources.page(i))) ++wrong;
        }
        ++fetched;
      }
    });
  }
  EXPECT_TRUE(comes_true([&] { return fetched >= 50; }));
  cluster_.stop();
  const int before = fetched;
  EXPECT_TRUE(comes_true([&] { return fetched >= before + 20; }));
  is_over = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

INSTANTIATE_TEST_SUITE_P(Paths, AheadOver, testing::Values(Path::kShm, Path::kTcp), path_name);

// It may be withdrawn before it has come: then the engine says so again.
TEST(Ahead, APageThatNobodyFetchesGivesItsPlaceBackInTime) {
  OpenOptions options = ahead_of(embedded());
  options.ahead.linger_ms = 20;
  const auto tier = open(options);
  put_all(*tier, Pages(*tier, 4, 1));
  ASSERT_TRUE(comes_true([&] {
    EXPECT_TRUE(is_taken(tier->announce(keys_of(4), 0)));
    return tier->statistics().fetched_ahead > 0;
  }));
  EXPECT_TRUE(comes_true([&] { return tier->statistics().ahead_places == 0; }));
}

// No page of another length is found.
TEST(Ahead, PagesShorterThanTheNodesAreNearOnceOneWasFetched) {
  OpenOptions options = ahead_of(embedded());
  options.embedded_node.page_bytes = 4 * kPageBytes;
  const auto tier = open(options);
  const Pages sources(*tier, kPages, 1);
  put_all(*tier, sources);
  EXPECT_TRUE(are_ready(tier->fetch(fetches(Pages(*tier, 1, 100)), kTimeoutUs).value()));
  ASSERT_TRUE(tier->announce(keys_of(kPages), kForever));
  ASSERT_TRUE(comes_true([&] { return tier->statistics().fetched_ahead == kPages; }));
  const Pages landed(*tier, kPages, 100);
  EXPECT_TRUE(are_ready(tier->fetch(fetches(landed), kTimeoutUs).value()));
  EXPECT_EQ(tier->statistics().near, kPages);
  EXPECT_TRUE(std::ranges::equal(landed.page(3), sources.page(3)));
}

TEST(Ahead, MorePagesThanWaitByDefaultMayBeAnnounced) {
  EXPECT_EQ((AheadOptions{.pages = 100}).lane_options().scheduler.most_waiting, 4'096u);
  const PrefetchOptions many = AheadOptions{.pages = 16'384}.lane_options();
  EXPECT_EQ(many.scheduler.most_waiting, 16'384u);
  EXPECT_TRUE(many.validate());
}

TEST(Ahead, APrefetcherBringsWhatItExpectsOfAccesses) {
  OpenOptions options = ahead_of(embedded());
  options.ahead.prefetcher = "previous_selection";
  const auto tier = open(options);
  const Pages sources(*tier, kPages, 1);
  put_all(*tier, sources);
  const Pages landed(*tier, kPages, 100);
  std::vector<ObservedAccess> accesses;
  for (const PageKey& each : keys_of(kPages)) accesses.push_back({.key = each});
  uint64_t step = 0;
  EXPECT_TRUE(comes_true([&] {
    ++step;
    for (ObservedAccess& access : accesses) access.step = step;
    EXPECT_TRUE(tier->observe(accesses));
    EXPECT_TRUE(are_ready(tier->fetch(fetches(landed), kTimeoutUs).value()));
    return tier->statistics().near > 0;
  }));
  for (size_t i = 0; i < kPages; ++i) {
    EXPECT_TRUE(std::ranges::equal(landed.page(i), sources.page(i)));
  }
}

TEST(Ahead, WithoutMemoryForItItIsRefused) {
  const auto tier = open();
  const auto keys = keys_of(1);
  for (const Result<void>& refused :
       {tier->announce(keys, 0), tier->withdraw(keys), tier->mark_milestones(keys),
        tier->observe(std::vector<ObservedAccess>(1))}) {
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::kInvalid);
    EXPECT_THAT(refused.error().message, testing::HasSubstr("ahead.pages"));
  }
}

TEST(Ahead, AFullQueueIsACodeAndNotAWait) {
  OpenOptions options = ahead_of(embedded());
  options.lanes = {.lanes = 1, .queue_depth = 2};
  const auto tier = open(options);
  const Pages landed(*tier, 1);
  Ticket first = tier->fetch(fetches(landed), kTimeoutUs).value();
  const Ticket second = tier->fetch(fetches(landed), kTimeoutUs).value();
  EXPECT_EQ(tier->statistics().fetch_tickets_free, 0u);
  const auto refused = tier->announce(keys_of(1), 0);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kExhausted);
  EXPECT_THAT(refused.error().message, testing::HasSubstr("free tickets that are done"));
  EXPECT_FALSE(tier->fetch(fetches(landed), kTimeoutUs));
  first = {};
  EXPECT_TRUE(tier->announce(keys_of(1), 0));
  EXPECT_TRUE(comes_true([&] { return tier->statistics().fetch_tickets_free == 1; }));
}

TEST(Ahead, NothingIsLeftOnceItIsClosedWithPagesUnderWay) {
  open(ahead_of(embedded()));
  const size_t descriptors = entries("/proc/self/fd");
  const size_t threads = entries("/proc/self/task");
  for (int i = 0; i < 30; ++i) {
    const auto tier = open(ahead_of(embedded()));
    put_all(*tier, Pages(*tier, kPages, 1));
    EXPECT_TRUE(tier->announce(keys_of(kPages + 4), kForever));
  }
  EXPECT_EQ(entries("/proc/self/fd"), descriptors);
  // A thread that was joined may stay there a moment longer.
  EXPECT_TRUE(comes_true([&] { return entries("/proc/self/task") <= threads; }));
}

TEST(Statistics, CountWhatBecameOfEachPage) {
  const auto tier = open();
  const uint64_t tickets = tier->statistics().fetch_tickets_free;
  put_all(*tier, Pages(*tier, 3, 1));
  const Pages landed(*tier, 5, 100);
  {
    const Ticket ticket = tier->fetch(fetches(landed), kTimeoutUs).value();
    ticket.wait();
    EXPECT_EQ(tier->statistics().fetch_tickets_free, tickets - 1);
  }
  tier->fetch(fetches(landed), 0).value().wait();
  const Statistics counts = tier->statistics();
  EXPECT_EQ(counts.verdicts.fetches, 2u);
  EXPECT_EQ(counts.verdicts.ready, 3u);
  EXPECT_EQ(counts.verdicts.ready_bytes, 3 * kPageBytes);
  EXPECT_EQ(counts.verdicts.miss, 2u);
  EXPECT_EQ(counts.verdicts.stalled, 5u);
  EXPECT_EQ(counts.recompute(), 7u);
  EXPECT_EQ(counts.puts_acknowledged, 3u);
  EXPECT_EQ(counts.puts_failed, 0u);
  EXPECT_EQ(counts.under_way, 0u);
  EXPECT_EQ(counts.fetch_tickets_free, tickets);
  EXPECT_EQ(counts.near, 0u);
}

TEST(Statistics, TellWhatIsUnderWay) {
  Cluster cluster(Path::kShm);
  const auto tier = open(over(cluster));
  const Pages sources(*tier, 1, 1);
  put_all(*tier, sources);
  cluster.hold();
  const uint64_t free = tier->statistics().put_tickets_free;
  const Ticket put = tier->put(puts(sources), kTimeoutUs).value();
  EXPECT_EQ(tier->statistics().under_way, 1u);
  EXPECT_EQ(tier->statistics().put_tickets_free, free - 1);
  cluster.go_on();
  put.wait();
  EXPECT_EQ(tier->statistics().under_way, 0u);
}

}  // namespace
}  // namespace farpage
