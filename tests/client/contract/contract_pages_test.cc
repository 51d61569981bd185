// Which pages are ready, and what lies in memory then.

#include <array>

#include "tests/client/contract/fetch_contract.h"

namespace farpage {
namespace {

INSTANTIATE_TEST_SUITE_P(Ways, FetchContract, every_way(), contract_name);

TEST_P(FetchContract, BringsMorePagesThanAreUnderWayAtOneTime) {
  constexpr size_t kCount = 300;
  put_some(kCount);
  const Region region = landing(kCount * kPageBytes);
  const Ticket ticket = fetched(fetches_to(region));
  for (size_t i = 0; i < kCount; ++i) {
    const Slice slice = region.slice(i * kPageBytes, kPageBytes);
    const PageVerdict& page = ticket.verdicts()[i];
    ASSERT_EQ(page.verdict, Verdict::kReady) << i;
    EXPECT_TRUE(has_page(slice, i)) << i;
    EXPECT_EQ(page.landed, slice.data);
    EXPECT_LE(page.took_ns, kTimeoutUs * kMicrosecond);
  }
  EXPECT_EQ(tier_->statistics().verdicts.ready, kCount);
}

// With room between the pages, which nothing touches.
TEST_P(FetchContract, BringsPagesOfEveryLengthToAnyAddress) {
  constexpr std::array<size_t, 9> kLengths = {1, 7, 63, 64, 65, 1000, 4032, 4095, 4096};
  const Region region = landing(2 * kPageBytes * kLengths.size());
  std::vector<PageRequest> requests;
  for (size_t i = 0; i < kLengths.size(); ++i) {
    put(i, 0, kLengths[i]);
    requests.push_back({key(i), 0, region.slice(2 * kPageBytes * i + 13 * i + 1, kLengths[i])});
  }
  const Ticket ticket = fetched(requests);
  size_t end = 0;
  for (size_t i = 0; i < kLengths.size(); ++i) {
    ASSERT_EQ(ticket.verdicts()[i].verdict, Verdict::kReady) << kLengths[i];
    const Slice& to = requests[i].destination;
    EXPECT_TRUE(has_page(to, i)) << kLengths[i];
    const auto begin = static_cast<size_t>(to.data - region.data());
    EXPECT_TRUE(is_untouched(region.slice(end, begin - end))) << "before page " << i;
    end = begin + to.bytes;
  }
  EXPECT_TRUE(is_untouched(region.slice(end, region.bytes() - end)));
}

TEST_P(FetchContract, OfSomePagesThatAreThereBringsThose) {
  put(0);
  put(2);
  const Region region = landing(4 * kPageBytes);
  const Ticket ticket = fetched(fetches_to(region));
  for (const size_t i : {0, 2}) {
    EXPECT_EQ(ticket.verdicts()[i].verdict, Verdict::kReady);
    EXPECT_TRUE(has_page(region.slice(i * kPageBytes, kPageBytes), i));
  }
  for (const size_t i : {1, 3}) {
    EXPECT_EQ(ticket.verdicts()[i].verdict, Verdict::kRecompute);
    EXPECT_EQ(ticket.verdicts()[i].reason, Reason::kMiss);
    EXPECT_TRUE(is_untouched(region.slice(i * kPageBytes, kPageBytes)));
  }
}

TEST_P(FetchContract, OfOneKeyToManyPlacesBringsItToEach) {
  put(5);
  const Region region = landing(6 * kPageBytes);
  std::vector<PageRequest> requests = fetches_to(region);
  for (PageRequest& request : requests) request.key = key(5);
  const Ticket ticket = fetched(requests);
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(ticket.verdicts()[i].verdict, Verdict::kReady);
    EXPECT_TRUE(has_page(requests[i].destination, 5)) << i;
  }
}

// The page is there, and of another length: it is as good as none.
TEST_P(FetchContract, OfAnotherLengthThanThePageHasIsAMiss) {
  put(0, 0, 1000);
  const Region region = landing(2 * kPageBytes);
  const std::array requests = {PageRequest{key(0), 0, region.slice(0, 999)},
                               PageRequest{key(0), 0, region.slice(kPageBytes, 1001)}};
  const Ticket ticket = fetched(requests);
  for (const PageVerdict& page : ticket.verdicts()) {
    EXPECT_EQ(page.verdict, Verdict::kRecompute);
    EXPECT_EQ(page.reason, Reason::kMiss);
  }
  // A page may have landed in the host's memory before it was judged, and no further.
  EXPECT_TRUE(is_untouched(region.slice(999, kPageBytes - 999)));
  EXPECT_TRUE(is_untouched(region.slice(kPageBytes + 1001, kPageBytes - 1001)));
  EXPECT_TRUE(!is_on_gpu() || is_untouched(region.slice(0, region.bytes())));
}

TEST_P(FetchContract, BringsWhatWasPutLastAndNothingOlderThanItAskedFor) {
  const Version first = put(0, 1);
  const Version second = put(0, 2);
  EXPECT_GT(second, first);
  const Region region = landing(2 * kPageBytes);
  std::vector<PageRequest> requests = fetches_to(region);
  requests[0].min_version = second;
  requests[1] = {key(0), second + 1, requests[1].destination};
  const Ticket ticket = fetched(requests);
  EXPECT_EQ(ticket.verdicts()[0].verdict, Verdict::kReady);
  EXPECT_EQ(ticket.verdicts()[0].version, second);
  EXPECT_TRUE(has_page(requests[0].destination, 0, 2));
  EXPECT_EQ(ticket.verdicts()[1].reason, Reason::kStale);
  EXPECT_TRUE(!is_on_gpu() || is_untouched(requests[1].destination));
}

TEST_P(FetchContract, OfAPageThatWasRemovedIsAMiss) {
  put(0);
  const std::array keys = {key(0)};
  const Ticket removal = tier_->remove(keys, kTimeoutUs).value();
  removal.wait();
  EXPECT_EQ(removal.removed().value(), 1u);
  const Region region = landing(kPageBytes);
  const Ticket ticket = fetched(fetches_to(region));
  EXPECT_EQ(ticket.verdicts()[0].reason, Reason::kMiss);
  EXPECT_TRUE(!is_on_gpu() || is_untouched(region.slice(0, kPageBytes)));
}

TEST_P(FetchContract, WithoutDestinationsOnlyAnswers) {
  put(0);
  const std::array requests = {PageRequest{key(0), 0, {}}, PageRequest{key(1), 0, {}}};
  const Ticket ticket = fetched(requests);
  EXPECT_EQ(ticket.verdicts()[0].verdict, Verdict::kReady);
  EXPECT_EQ(ticket.verdicts()[0].landed, nullptr);
  EXPECT_EQ(ticket.verdicts()[1].reason, Reason::kMiss);
  EXPECT_TRUE(fetched({}).released());
}

// Each page is one state of it whole, and none older than what was acknowledged before.
TEST_P(FetchContract, BesidePutsOfTheSamePagesBringsNoneMixedOrOld) {
  constexpr size_t kCount = 8;
  put_some(kCount);
  std::atomic<bool> is_over = false;
  std::array<std::atomic<uint64_t>, kCount> acknowledged = {};
  std::thread putting([&] {
    for (uint64_t state = 1; !is_over; ++state) {
      put(state % kCount, state);
      acknowledged[state % kCount] = state;
    }
  });
  const Region region = landing(kCount * kPageBytes);
  const std::vector<PageRequest> requests = fetches_to(region);
  size_t ready = 0;
  while (ready < 400) {
    std::array<uint64_t, kCount> least = {};
    for (size_t i = 0; i < kCount; ++i) least[i] = acknowledged[i];
    const Ticket ticket = fetched(requests);
    for (size_t i = 0; i < kCount; ++i) {
      if (ticket.verdicts()[i].verdict != Verdict::kReady) continue;
      ++ready;
      // The put that comes next may be there already.
      bool is_one = false;
      const uint64_t most = acknowledged[i] + kCount;
      for (uint64_t state = least[i]; state <= most && !is_one; ++state) {
        is_one = has_page(requests[i].destination, i, state);
      }
      EXPECT_TRUE(is_one) << "page " << i;
    }
  }
  is_over = true;
  putting.join();
}

}  // namespace
}  // namespace farpage
