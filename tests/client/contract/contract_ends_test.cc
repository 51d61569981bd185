// How fetches end: by their deadline, with their client, without their node, many at one time.

#include <array>
#include <atomic>
#include <thread>

#include "tests/client/contract/fetch_contract.h"

namespace farpage {
namespace {

using FetchEnds = FetchContract;
INSTANTIATE_TEST_SUITE_P(Ways, FetchEnds, every_way(), contract_name);

TEST_P(FetchEnds, AtADeadlineThatHasPassedAtOnce) {
  put_some(2);
  const Region region = landing(2 * kPageBytes);
  const Ticket ticket = fetched(fetches_to(region), 0);
  for (const PageVerdict& page : ticket.verdicts()) {
    EXPECT_EQ(page.verdict, Verdict::kRecompute);
    EXPECT_EQ(page.reason, Reason::kStalled);
  }
  EXPECT_TRUE(is_untouched(region.slice(0, region.bytes())));
}

// Whatever the time is enough for: a page is ready in time, or stalled.
TEST_P(FetchEnds, WithOneVerdictForEachPageWhateverTheTimeout) {
  constexpr size_t kCount = 40;
  put_some(kCount);
  const Region region = landing(kCount * kPageBytes);
  const std::vector<PageRequest> requests = fetches_to(region);
  for (uint64_t timeout_us = 1; timeout_us < 20'000; timeout_us += 1 + timeout_us / 2) {
    const Ticket ticket = fetched(requests, timeout_us);
    for (size_t i = 0; i < kCount; ++i) {
      const PageVerdict& page = ticket.verdicts()[i];
      if (page.verdict != Verdict::kReady) continue;
      EXPECT_LE(page.took_ns, timeout_us * kMicrosecond);
      EXPECT_TRUE(has_page(requests[i].destination, i)) << i;
    }
  }
}

// Memory that was released is the caller's, whatever comes to other memory.
TEST_P(FetchEnds, AndWritesNothingOnceItIsReleased) {
  constexpr size_t kCount = 16;
  put_some(kCount);
  put(99);
  const Region region = landing(kCount * kPageBytes);
  const Region other = landing(kCount * kPageBytes);
  std::vector<PageRequest> requests = fetches_to(region);
  const std::vector<PageRequest> others = fetches_to(other);
  for (const uint64_t timeout_us : {uint64_t{50}, uint64_t{300}, uint64_t{1'000}, kTimeoutUs}) {
    fetched(requests, timeout_us);
    // The next one brings another page to each place: what comes later than its release would show.
    std::vector<PageRequest> next = requests;
    for (PageRequest& request : next) request.key = key(99);
    ASSERT_TRUE(are_ready(fetched(next)));
    ASSERT_TRUE(are_ready(fetched(others)));
    for (const PageRequest& request : requests) EXPECT_TRUE(has_page(request.destination, 99));
  }
}

TEST_P(FetchEnds, WithATicketAndPagesThatOutliveItsClient) {
  put_some(4);
  std::vector<PageRequest> requests;
  Ticket ticket;
  {
    const Region region = landing(4 * kPageBytes);
    requests = fetches_to(region);
    ticket = tier_->fetch(requests, kTimeoutUs).value();
    ASSERT_TRUE(ticket.wait_released(patience_ns()));
  }
  tier_.reset();
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(ticket.verdicts()[i].verdict, Verdict::kReady);
    EXPECT_TRUE(has_page(requests[i].destination, i));
  }
}

TEST_P(FetchEnds, OfManyThreadsEachWithItsPages) {
  constexpr size_t kCount = 12;
  constexpr size_t kThreads = 6;
  for (size_t page = 0; page < kCount * kThreads; ++page) put(page);
  std::vector<Region> regions;
  for (size_t i = 0; i < kThreads; ++i) regions.push_back(landing(kCount * kPageBytes));
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (size_t number = 0; number < kThreads; ++number) {
    threads.emplace_back([&, number] {
      const std::vector<PageRequest> requests = fetches_to(regions[number], number * kCount);
      // On a busy machine the connection may be lost: then some rounds bring less.
      for (int whole = 0; whole < 5;) {
        const Ticket ticket = fetched(requests);
        whole += are_ready(ticket);
        for (size_t i = 0; i < kCount; ++i) {
          const bool is_ready = ticket.verdicts()[i].verdict == Verdict::kReady;
          wrong += is_ready && !has_page(requests[i].destination, number * kCount + i);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

// Every page has its verdict, whenever its node goes, and what is ready is right: under the lease,
// and once it has ended.
TEST_P(FetchEnds, WhenTheNodeGoesToo) {
  constexpr size_t kCount = 8;
  constexpr size_t kThreads = 8;
  open_with_lease(1'000);
  put_some(kCount);
  std::vector<Region> regions;
  for (size_t i = 0; i < kThreads; ++i) regions.push_back(landing(kCount * kPageBytes));
  std::atomic<int> fetches = 0;
  std::atomic<int> unreachable = 0;
  std::atomic<int> wrong = 0;
  std::atomic<bool> is_over = false;
  std::vector<std::thread> threads;
  for (const Region& region : regions) {
    threads.emplace_back([&] {
      const std::vector<PageRequest> requests = fetches_to(region);
      while (!is_over) {
        const Ticket ticket = fetched(requests, 50'000);
        for (size_t i = 0; i < kCount; ++i) {
          const bool is_ready = ticket.verdicts()[i].verdict == Verdict::kReady;
          wrong += is_ready && !has_page(requests[i].destination, i);
          unreachable += ticket.verdicts()[i].reason == Reason::kUnreachable;
        }
        ++fetches;
      }
    });
  }
  while (fetches < 40) std::this_thread::yield();
  cluster_->stop();
  while (unreachable < 40) std::this_thread::yield();
  is_over = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

// Its pages are gone with it, and no former one is taken for a new one.
TEST_P(FetchEnds, OfPagesOfANodeThatWasStartedAgain) {
  open_with_lease(500);
  put_some(4);
  const Region region = landing(4 * kPageBytes);
  cluster_->restart();
  std::vector<PageRequest> requests = fetches_to(region);
  for (PageRequest& request : requests) request.key = key(50);
  // It is missed once the client has found the node's next run.
  while (!are(fetched(requests, 50'000), Verdict::kRecompute, Reason::kMiss)) {
  }
  const Ticket ticket = fetched(fetches_to(region), 50'000);
  for (const PageVerdict& page : ticket.verdicts()) {
    EXPECT_EQ(page.verdict, Verdict::kRecompute);
  }
}

}  // namespace
}  // namespace farpage
