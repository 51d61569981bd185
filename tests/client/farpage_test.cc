#include "client/farpage.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <iterator>
#include <thread>
#include <vector>

#include "base/memory/mapping.h"
#include "tests/client/farpage_pages.h"
#include "tests/support/cluster.h"

namespace farpage {
namespace {

TEST(Farpage, AnEmbeddedNodeGivesBackWhatWasPut) {
  const auto tier = open();
  EXPECT_EQ(tier->page_bytes(), kPageBytes);
  const Pages sources(*tier, 16, 1);
  put_all(*tier, sources);
  const Pages landed(*tier, 16, 100);
  const Ticket ticket = tier->fetch(fetches(landed), kTimeoutUs).value();
  ticket.wait();
  ASSERT_EQ(ticket.verdicts().size(), 16u);
  for (size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(ticket.verdicts()[i].verdict, Verdict::kReady);
    EXPECT_TRUE(std::ranges::equal(landed.page(i), sources.page(i)));
  }
}

TEST(Farpage, ATicketKeepsNothingButThePages) {
  const auto tier = open();
  const Pages sources(*tier, 4, 1);
  put_all(*tier, sources);
  const Pages landed(*tier, 4);
  Ticket ticket;
  {
    std::vector<PageRequest> requests = fetches(landed);
    ticket = tier->fetch(requests, kTimeoutUs).value();
    std::ranges::fill(requests, PageRequest{});
  }
  ASSERT_TRUE(ticket.wait_released(tier->clock().now_ns() + kTimeoutUs * kMicrosecond));
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_TRUE(std::ranges::equal(landed.page(i), sources.page(i)));
  }
}

TEST(Farpage, RemovedPagesAreGone) {
  const auto tier = open();
  put_all(*tier, Pages(*tier, 3, 1));
  const std::array keys = {key(0), key(2), key(9)};
  const Ticket ticket = tier->remove(keys, kTimeoutUs).value();
  ticket.wait();
  EXPECT_EQ(ticket.removed().value(), 2u);
  const std::array all = {key(0), key(1), key(2)};
  EXPECT_EQ(tier->leading(all, kTimeoutUs).value(), 0u);
  EXPECT_EQ(tier->leading(std::span(all).subspan(1), kTimeoutUs).value(), 1u);
}

TEST(Farpage, LeadingCountsUpToTheFirstHole) {
  const auto tier = open();
  put_all(*tier, Pages(*tier, 5, 1));
  put_all(*tier, Pages(*tier, 3, 1), 6);
  std::vector<PageKey> keys;
  for (size_t i = 0; i < 9; ++i) keys.push_back(key(i));
  EXPECT_EQ(tier->leading(keys, kTimeoutUs).value(), 5u);
  EXPECT_EQ(tier->leading({}, kTimeoutUs).value(), 0u);
}

TEST(Farpage, ExistsAnswersForEachKey) {
  const auto tier = open();
  put_all(*tier, Pages(*tier, 40, 1));
  std::vector<PageKey> keys;
  for (size_t i = 0; i < 80; ++i) keys.push_back(key(i * 7 % 80));
  const Ticket ticket = tier->exists(keys, kTimeoutUs).value();
  ticket.wait();
  ASSERT_EQ(ticket.verdicts().size(), 80u);
  for (size_t i = 0; i < 80; ++i) {
    EXPECT_EQ(ticket.verdicts()[i].verdict == Verdict::kReady, i * 7 % 80 < 40) << i;
  }
}

TEST(Farpage, FlushComesAfterWhatWasSubmittedBefore) {
  const auto tier = open();
  EXPECT_TRUE(tier->flush(kTimeoutUs).has_value());
  const Pages sources(*tier, 64, 1);
  std::vector<Ticket> tickets;
  for (int i = 0; i < 20; ++i) tickets.push_back(tier->put(puts(sources), kTimeoutUs).value());
  ASSERT_TRUE(tier->flush(kTimeoutUs).has_value());
  for (const Ticket& ticket : tickets) EXPECT_TRUE(ticket.done());
}

// The staging is full, and the node does not empty it: the writer is blocked.
TEST(Farpage, PutsAndRemovesBehindABlockedPutEndByTheirDeadlines) {
  NodeOptions node = Cluster::small_options();
  node.lease_ms = 600'000;
  Cluster cluster(Path::kTcp, node);
  OpenOptions options;
  options.node = format_address(cluster.address());
  options.client.staging_bytes = kMiB;
  const auto tier = open(options);
  const Pages sources(*tier, 200, 1);
  put_all(*tier, sources);
  cluster.hold();
  std::vector<Ticket> blocked;
  for (int i = 0; i < 3; ++i) blocked.push_back(tier->put(puts(sources), 600'000'000).value());
  const Ticket put = tier->put(puts(sources), 50'000).value();
  const std::array keys = {key(0)};
  const Ticket remove = tier->remove(keys, 50'000).value();
  const uint64_t patience_ns = tier->clock().now_ns() + kTimeoutUs * kMicrosecond;
  ASSERT_TRUE(put.wait_released(patience_ns));
  for (const PutResult& result : put.results()) EXPECT_EQ(result.code, Code::kTimeout);
  ASSERT_TRUE(remove.wait_released(patience_ns));
  EXPECT_EQ(remove.removed().error().code, Code::kTimeout);
  cluster.go_on();
  for (const Ticket& ticket : blocked) {
    ticket.wait();
    EXPECT_EQ(ticket.results()[0].code, Code::kOk);
  }
}

// No node acknowledges meanwhile.
TEST(Farpage, AFlushThatIsLateSaysSo) {
  Cluster cluster(Path::kTcp);
  OpenOptions options;
  options.node = format_address(cluster.address());
  options.client.staging_bytes = kMiB;
  const auto tier = open(options);
  const Pages sources(*tier, 2, 1);
  put_all(*tier, sources);
  cluster.hold();
  const Ticket put = tier->put(puts(sources), kTimeoutUs).value();
  const auto late = tier->flush(1'000);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Code::kTimeout);
  cluster.go_on();
  EXPECT_TRUE(tier->flush(kTimeoutUs).has_value());
  EXPECT_EQ(put.results()[0].code, Code::kOk);
}

TEST(Farpage, MemoryThatCannotBeWrittenIsNotRegistered) {
  const auto tier = open();
  const Mapping mapping = Mapping::anonymous(2 * kPageBytes).value();
  ASSERT_EQ(::mprotect(mapping.data() + kPageBytes, kPageBytes, PROT_READ), 0);
  const auto refusal = [&](std::byte* data, size_t bytes) {
    const auto refused = tier->register_memory({data, bytes});
    if (refused) return std::string("taken");
    EXPECT_EQ(refused.error().code, Code::kInvalid);
    return refused.error().message;
  };
  EXPECT_EQ(refusal(mapping.data(), kPageBytes), "taken");
  EXPECT_THAT(refusal(mapping.data(), kPageBytes + 1), testing::HasSubstr("may not be written"));
  EXPECT_THAT(refusal(reinterpret_cast<std::byte*>(kPageBytes), 1),
              testing::HasSubstr("not mapped"));
}

TEST(Farpage, NoTwoPagesOfAFetchLandInTheSameBytes) {
  const auto tier = open();
  Pages memory(*tier, 4, 1);
  const Region region = tier->register_memory(memory.bytes()).value();
  const auto refusal = [&](const std::vector<std::pair<uint64_t, uint64_t>>& places) {
    std::vector<PageRequest> requests;
    for (const auto& [offset, bytes] : places) {
      requests.push_back({key(requests.size()), 0, region.slice(offset, bytes)});
    }
    const auto ticket = tier->fetch(requests, kTimeoutUs);
    return ticket ? std::string() : ticket.error().message;
  };
  const auto overlap = [](int one, int other) {
    return testing::StartsWith(fmt::format("pages {} and {} of the fetch", one, other));
  };
  EXPECT_EQ(refusal({{0, 100}, {100, 100}, {200, 100}}), "");
  EXPECT_EQ(refusal({{300, 100}, {100, 100}, {200, 100}}), "");
  EXPECT_EQ(refusal({{100, 100}, {0, 0}, {100, 0}, {150, 0}, {0, 100}}), "");  // they only ask
  EXPECT_THAT(refusal({{0, 100}, {0, 100}}), overlap(0, 1));
  EXPECT_THAT(refusal({{0, 100}, {100, 100}, {99, 1}}), overlap(0, 2));
  EXPECT_THAT(refusal({{500, 10}, {100, 300}, {150, 1}, {0, 100}}), overlap(1, 2));
  EXPECT_THAT(refusal({{500, 10}, {399, 1}, {100, 300}}), overlap(1, 2));
  const std::vector<PutRequest> twice(2, {key(0), memory.slice(0)});
  EXPECT_TRUE(tier->put(twice, kTimeoutUs));
}

TEST(Farpage, HedgesAreForThoseWhoDriveALane) {
  const auto tier = open();
  const Pages landed(*tier, 1);
  const auto refused = tier->fetch(fetches(landed), kTimeoutUs, {.hedge = true});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalid);
}

TEST(Farpage, AFullQueueIsACodeAndNotAWait) {
  OpenOptions options = embedded();
  options.lanes = {.lanes = 1, .queue_depth = 2};
  const auto tier = open(options);
  const Pages landed(*tier, 1);
  Ticket first = tier->fetch(fetches(landed), kTimeoutUs).value();
  Ticket second = tier->fetch(fetches(landed), kTimeoutUs).value();
  const auto third = tier->fetch(fetches(landed), kTimeoutUs);
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().code, Code::kExhausted);
  EXPECT_THAT(third.error().message, testing::HasSubstr("free one that is done"));
  EXPECT_THAT(third.error().message, testing::HasSubstr("client.queue_depth"));
  first = {};
  EXPECT_TRUE(tier->fetch(fetches(landed), kTimeoutUs).has_value());
}

TEST(Farpage, CompletionsBringTheTagOfEachEnd) {
  const auto tier = open();
  const auto completions = Completions::make().value();
  const Pages landed(*tier, 1);
  std::vector<Ticket> tickets;
  for (uint64_t tag = 10; tag < 20; ++tag) {
    tickets.push_back(
        tier->fetch(fetches(landed), kTimeoutUs, {}, {.completions = completions.get(), .tag = tag})
            .value());
  }
  std::vector<uint64_t> seen;
  while (seen.size() < 10) {
    pollfd waits = {completions->descriptor(), POLLIN, 0};
    ASSERT_EQ(::poll(&waits, 1, 20'000), 1);
    std::array<uint64_t, 4> tags = {};
    const size_t count = completions->take(tags);
    seen.insert(seen.end(), tags.begin(), tags.begin() + count);
  }
  std::ranges::sort(seen);
  for (uint64_t tag = 10; tag < 20; ++tag) EXPECT_EQ(seen[tag - 10], tag);
  for (const Ticket& ticket : tickets) EXPECT_TRUE(ticket.done());
}

TEST(Farpage, ACallbackRunsOnceItIsDone) {
  const auto tier = open();
  const Pages landed(*tier, 1);
  std::atomic<int> calls = 0;
  const auto count = [](void* context) { ++*static_cast<std::atomic<int>*>(context); };
  {
    const Ticket ticket =
        tier->fetch(fetches(landed), kTimeoutUs, {}, {.callback = count, .context = &calls})
            .value();
  }
  EXPECT_EQ(calls, 1);
  {
    const Ticket ticket =
        tier->put(puts(landed), kTimeoutUs, {.callback = count, .context = &calls}).value();
  }
  EXPECT_EQ(calls, 2);
}

TEST(Farpage, ManyThreadsShareIt) {
  const auto tier = open();
  put_all(*tier, Pages(*tier, 64, 1));
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (size_t number = 0; number < 8; ++number) {
    threads.emplace_back([&, number] {
      const Pages landed(*tier, 8, 200);
      for (int round = 0; round < 50; ++round) {
        const size_t first = number * 8;
        const Ticket ticket = tier->fetch(fetches(landed, first), kTimeoutUs).value();
        ticket.wait();
        for (size_t i = 0; i < 8; ++i) {
          if (ticket.verdicts()[i].verdict != Verdict::kReady ||
              landed.page(i)[17] != static_cast<std::byte>(1 + first + i)) {
            ++wrong;
          }
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Farpage, ATicketOutlivesItsFarpage) {
  Ticket ticket;
  {
    const auto tier = open();
    const std::array requests = {PageRequest{key(1), 0, {}}};
    ticket = tier->fetch(requests, kTimeoutUs).value();
  }
  EXPECT_TRUE(ticket.done());
  EXPECT_EQ(ticket.verdicts()[0].verdict, Verdict::kRecompute);
}

// Whether it was begun when the end came or not.
TEST(Farpage, WhatIsSubmittedLastEndsTooWhenItIsClosed) {
  for (int i = 0; i < 30; ++i) {
    auto tier = open();
    const std::array requests = {PageRequest{key(1), 0, {}}};
    const std::array keys = {key(1)};
    const Ticket fetch = tier->fetch(requests, kTimeoutUs).value();
    const Ticket exists = tier->exists(keys, kTimeoutUs).value();
    const Ticket remove = tier->remove(keys, kTimeoutUs).value();
    tier.reset();
    EXPECT_TRUE(fetch.released() && exists.released() && remove.released());
  }
}

// Each question is answered at once; fetches have their turn all the same.
TEST(Farpage, AFloodOfQuestionsKeepsNoFetchWaiting) {
  OpenOptions options = embedded();
  options.lanes.lanes = 1;
  const auto tier = open(options);
  put_all(*tier, Pages(*tier, 8, 1));
  std::vector<PageKey> keys;
  for (size_t i = 0; i < 5'000; ++i) keys.push_back(key(i % 8));
  std::atomic<bool> is_over = false;
  std::vector<std::thread> asking;
  for (int number = 0; number < 4; ++number) {
    asking.emplace_back([&] {
      while (!is_over) EXPECT_EQ(tier->leading(keys, kTimeoutUs).value(), keys.size());
    });
  }
  const Pages landed(*tier, 8);
  for (int i = 0; i < 50; ++i) {
    const Ticket ticket = tier->fetch(fetches(landed), kTimeoutUs).value();
    EXPECT_TRUE(ticket.wait_until(tier->clock().now_ns() + kTimeoutUs * kMicrosecond));
    EXPECT_EQ(ticket.verdicts()[0].verdict, Verdict::kReady);
  }
  is_over = true;
  for (std::thread& thread : asking) thread.join();
}

TEST(Farpage, ATimeoutOfNothingIsAVerdictAtOnce) {
  const auto tier = open();
  const Pages pages(*tier, 1, 1);
  const Ticket fetch = tier->fetch(fetches(pages), 0).value();
  fetch.wait();
  EXPECT_EQ(fetch.verdicts()[0].verdict, Verdict::kRecompute);
  EXPECT_EQ(fetch.verdicts()[0].reason, Reason::kStalled);
  const Ticket put = tier->put(puts(pages), 0).value();
  put.wait();
  EXPECT_NE(put.results()[0].code, Code::kOk);
  EXPECT_TRUE(put.wait_released(tier->clock().now_ns() + kTimeoutUs * kMicrosecond));
}

TEST(Farpage, NothingOfItIsLeftOnceItIsClosed) {
  open();
  const size_t descriptors = entries("/proc/self/fd");
  const size_t threads = entries("/proc/self/task");
  for (int i = 0; i < 50; ++i) {
    const auto tier = open();
    put_all(*tier, Pages(*tier, 1, 1));
  }
  EXPECT_EQ(entries("/proc/self/fd"), descriptors);
  // A thread that was joined may stay there a moment longer.
  const uint64_t patience_ns = boottime_clock().now_ns() + 10 * kSecond;
  while (entries("/proc/self/task") > threads && boottime_clock().now_ns() < patience_ns) {
    std::this_thread::yield();
  }
  EXPECT_LE(entries("/proc/self/task"), threads);
}

TEST(Farpage, TwoOfThemInOneProcessKnowNothingOfEachOther) {
  const auto one = open();
  auto other = open();
  put_all(*one, Pages(*one, 2, 1));
  const std::array keys = {key(0)};
  EXPECT_EQ(other->leading(keys, kTimeoutUs).value(), 0u);
  other.reset();
  EXPECT_EQ(one->leading(keys, kTimeoutUs).value(), 1u);
}

TEST(Farpage, NoNodeIsASentence) {
  const auto none = Farpage::open({});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::kInvalid);
  EXPECT_THAT(none.error().message, testing::HasSubstr("client.embedded = true"));
  OpenOptions options;
  options.node = "/nowhere/farpage.sock";
  options.client.connect_ms = 50;
  const auto absent = Farpage::open(options);
  ASSERT_FALSE(absent);
  EXPECT_THAT(absent.error().message, testing::HasSubstr("/nowhere/farpage.sock"));
}

}  // namespace
}  // namespace farpage
