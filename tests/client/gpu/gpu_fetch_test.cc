// Fetches into memory of a GPU, over the fake driver, beyond what tests/client/contract has.

#include <gmock/gmock.h>

#include <algorithm>
#include <array>

#include "tests/client/gpu/gpu_client.h"

namespace farpage {
namespace {

using cuda::kSuccess;
using testing::HasSubstr;

class GpuFetchOver : public GpuClient, public testing::WithParamInterface<Path> {
 protected:
  GpuFetchOver() { open_over(GetParam()); }
};

TEST_P(GpuFetchOver, ServesManyThreadsBesideFetchesIntoHostMemory) {
  const Pages sources(*tier_, 16, 1);
  put_all(*tier_, sources);
  std::vector<Region> regions;
  for (int i = 0; i < 4; ++i) regions.push_back(registered(16));
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (const Region& region : regions) {
    threads.emplace_back([&] {
      const Pages landed(*tier_, 16, 100);
      // On a busy machine the connection may be lost: then some rounds bring less.
      for (int whole = 0; whole < 10;) {
        const Ticket to_gpu = tier_->fetch(fetches_to(region), kTimeoutUs).value();
        const Ticket to_host = tier_->fetch(fetches(landed), kTimeoutUs).value();
        if (are_ready(to_gpu) && are_ready(to_host)) ++whole;
        for (size_t i = 0; i < 16; ++i) {
          if (is_ready(to_gpu, i) && !has_page(region, i, sources, i)) ++wrong;
          if (is_ready(to_host, i) && !std::ranges::equal(landed.page(i), sources.page(i))) ++wrong;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

INSTANTIATE_TEST_SUITE_P(Paths, GpuFetchOver, testing::Values(Path::kShm, Path::kTcp, Path::kTls),
                         path_name);

class GpuFetch : public GpuClient {
 protected:
  GpuFetch() { tier_ = open(options()); }
};

TEST_F(GpuFetch, IsReadyOnlyOnceItsCopiesHavePassed) {
  put_all(*tier_, Pages(*tier_, 2, 1));
  const Region region = registered(2);
  fake_->hold(nullptr);
  const Ticket ticket = tier_->fetch(fetches_to(region), kTimeoutUs).value();
  until_copies_are_under_way();
  EXPECT_FALSE(ticket.done());
  EXPECT_TRUE(is_filled_with(address_of(region), kUntouched, 2 * kPageBytes));
  fake_->release(nullptr);
  EXPECT_TRUE(are_ready(ticket));
}

TEST_F(GpuFetch, IsStalledAtItsDeadlineAndHeldUntilItsCopiesHavePassed) {
  const Pages sources(*tier_, 2, 1);
  put_all(*tier_, sources);
  const Region region = registered(2);
  fake_->hold(nullptr);
  Ticket ticket;
  // On a busy machine the pages may land too late for a copy.
  for (uint64_t timeout_us = 50'000; fake_->live().operations == 0; timeout_us *= 2) {
    ticket = tier_->fetch(fetches_to(region), timeout_us).value();
    ASSERT_TRUE(are(ticket, Verdict::kRecompute, Reason::kStalled));
  }
  EXPECT_FALSE(ticket.released());
  // Others have their time meanwhile.
  EXPECT_TRUE(are_ready(tier_->fetch(fetches(Pages(*tier_, 2, 100)), kTimeoutUs).value()));
  EXPECT_FALSE(ticket.released());
  fake_->release(nullptr);
  ASSERT_TRUE(ticket.wait_released(patience_ns()));
  for (const PageVerdict& page : ticket.verdicts()) EXPECT_EQ(page.place, Place::kReleased);
  EXPECT_EQ(fake_->live().operations, 0);
  ASSERT_TRUE(are_ready(tier_->fetch(fetches_to(region), kTimeoutUs).value()));
  EXPECT_TRUE(has_page(region, 1, sources, 1));
}

// At first every 20 us, and later every millisecond.
TEST_F(GpuFetch, LooksEverMoreSeldomAtCopiesThatHang) {
  constexpr uint64_t kMostLooks =
      5'000;  // in a second; some hundred of them while it keeps its core
  put_all(*tier_, Pages(*tier_, 1, 1));
  const Region region = registered(1);
  fake_->hold(nullptr);
  const uint64_t before = fake_->calls("cuEventQuery");
  const Ticket ticket = tier_->fetch(fetches_to(region), kSecond / kMicrosecond).value();
  EXPECT_TRUE(are(ticket, Verdict::kRecompute, Reason::kStalled));
  EXPECT_GT(fake_->calls("cuEventQuery"), before);
  EXPECT_LT(fake_->calls("cuEventQuery"), before + kMostLooks);
  fake_->release(nullptr);
  EXPECT_TRUE(ticket.wait_released(patience_ns()));
}

TEST_F(GpuFetch, StartsNoCopyBehindItsDeadline) {
  put_all(*tier_, Pages(*tier_, 1, 1));
  const Region region = registered(1);
  fake_->fail_call("cuMemcpyHtoDAsync_v2", 1, cuda::kLaunchFailed);  // nothing may meet it
  const Ticket ticket = tier_->fetch(fetches_to(region), 0).value();
  EXPECT_TRUE(are(ticket, Verdict::kRecompute, Reason::kStalled));
  EXPECT_TRUE(ticket.wait_released(patience_ns()));
  EXPECT_TRUE(is_filled_with(address_of(region), kUntouched));
  fake_->fail_call("cuMemcpyHtoDAsync_v2", 0, kSuccess);
  EXPECT_TRUE(are_ready(tier_->fetch(fetches_to(region), kTimeoutUs).value()));
}

TEST_F(GpuFetch, ThatFindsNoBounceMemoryIsStalledAtItsDeadline) {
  put_all(*tier_, Pages(*tier_, 2, 1));
  const Region region = registered(2);
  const Region other = registered(2);
  fake_->hold(nullptr);
  const Ticket first = tier_->fetch(fetches_to(region), kTimeoutUs).value();
  until_copies_are_under_way();
  const Ticket second = tier_->fetch(fetches_to(other), 20'000).value();
  EXPECT_TRUE(are(second, Verdict::kRecompute, Reason::kStalled));
  EXPECT_TRUE(second.wait_released(patience_ns()));
  EXPECT_TRUE(is_filled_with(address_of(other), kUntouched, 2 * kPageBytes));
  EXPECT_FALSE(first.done());
  fake_->release(nullptr);
  EXPECT_TRUE(are_ready(first));
}

// A large fetch leaves the next block to the one that has none.
TEST_F(GpuFetch, OfFewPagesComesBetweenThoseOfALargeOne) {
  const Pages sources(*tier_, 200, 1);
  put_all(*tier_, sources);
  const Region large = registered(200);
  const Region small = registered(1);
  fake_->hold(nullptr);
  const Ticket first = tier_->fetch(fetches_to(large), kTimeoutUs).value();
  until_copies_are_under_way();
  const Ticket second = tier_->fetch(fetches_to(small), kTimeoutUs).value();
  // Begun in their order: once this one is over, the one before it waits for a block.
  ASSERT_TRUE(
      are(tier_->fetch(fetches_to(small), 0).value(), Verdict::kRecompute, Reason::kStalled));
  fake_->release(nullptr);
  ASSERT_TRUE(are_ready(second));
  ASSERT_TRUE(are_ready(first));
  for (size_t i = 0; i < 200; ++i) ASSERT_TRUE(has_page(large, i, sources, i));
  EXPECT_LT(second.verdicts()[0].took_ns, first.verdicts()[199].took_ns);
}

TEST_F(GpuFetch, AnswersForPagesWithoutADestinationToo) {
  put_all(*tier_, Pages(*tier_, 2, 1));
  const Region region = registered(1);
  const std::array requests = {PageRequest{key(0), 0, region.slice(0, kPageBytes)},
                               PageRequest{key(1), 0, {}}, PageRequest{key(7), 0, {}}};
  const Ticket ticket = tier_->fetch(requests, kTimeoutUs).value();
  ticket.wait();
  EXPECT_EQ(ticket.verdicts()[0].verdict, Verdict::kReady);
  EXPECT_EQ(ticket.verdicts()[1].verdict, Verdict::kReady);
  EXPECT_EQ(ticket.verdicts()[1].landed, nullptr);
  EXPECT_EQ(ticket.verdicts()[2].reason, Reason::kMiss);
  EXPECT_TRUE(are_ready(tier_->fetch({}, kTimeoutUs).value()));
}

TEST_F(GpuFetch, FindsNoPageOfALengthThatNoNodeTakes) {
  const uint64_t bytes = 32 * kPageBytes;  // nor the bounce memory
  const Region region = registered(32);
  const std::array requests = {PageRequest{key(0), 0, region.slice(0, bytes)}};
  EXPECT_TRUE(are(tier_->fetch(requests, kTimeoutUs).value(), Verdict::kRecompute, Reason::kMiss));
}

TEST_F(GpuFetch, IntoTwoKindsOfMemoryIsRefused) {
  const Region region = registered(1);
  const Pages landed(*tier_, 1);
  const std::array requests = {PageRequest{key(0), 0, landed.slice(0)},
                               PageRequest{key(1), 0, region.slice(0, kPageBytes)}};
  const auto refused = tier_->fetch(requests, kTimeoutUs);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            "pages 0 and 1 of the fetch would land in host memory and in memory of cuda:0: fetch "
            "into each of them by itself");
}

TEST_F(GpuFetch, IntoAGpuWithoutRegisteredMemoryIsRefused) {
  Slice nowhere = registered(1).slice(0, kPageBytes);
  nowhere.place.device = 1;
  const std::array requests = {PageRequest{key(0), 0, nowhere}};
  const auto refused = tier_->fetch(requests, kTimeoutUs);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalid);
  EXPECT_THAT(refused.error().message, HasSubstr("no memory of cuda:1 is registered"));
}

TEST_F(GpuFetch, BeyondTheQueueIsRefused) {
  OpenOptions small = options();
  small.lanes.queue_depth = 2;
  tier_ = open(small);
  const Region region = registered(1);
  fake_->hold(nullptr);
  std::vector<Ticket> tickets;
  for (int i = 0; i < 2; ++i) {
    tickets.push_back(tier_->fetch(fetches_to(region), kTimeoutUs).value());
  }
  const auto refused = tier_->fetch(fetches_to(region), kTimeoutUs);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kExhausted);
  fake_->release(nullptr);
}

TEST_F(GpuFetch, EndsBeforeItsClientGoes) {
  put_all(*tier_, Pages(*tier_, 2, 1));
  const Region region = registered(2);
  fake_->hold(nullptr);
  const Ticket ticket = tier_->fetch(fetches_to(region), kTimeoutUs).value();
  until_copies_are_under_way();
  std::atomic<bool> has_gone = false;
  std::thread closing([&] {
    tier_.reset();
    has_gone = true;
  });
  EXPECT_FALSE(has_gone);
  fake_->release(nullptr);
  closing.join();
  EXPECT_TRUE(are_ready(ticket));
}

}  // namespace
}  // namespace farpage
