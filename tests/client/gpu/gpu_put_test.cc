// Puts from memory of a GPU, over the fake driver.

#include <gmock/gmock.h>

#include <algorithm>
#include <array>

#include "replay/page_content.h"
#include "tests/client/gpu/gpu_client.h"

namespace farpage {
namespace {

using cuda::kSuccess;
using testing::Each;
using testing::Field;
using testing::HasSubstr;

constexpr uint64_t kPut = 7;  // the number that the pages carry

class GpuPut : public GpuClient {
 protected:
  GpuPut() { tier_ = open(options()); }

  // Pages of keys from the first one on, written by the GPU.
  Region written(size_t count, size_t first_key = 0) {
    Region region = registered(count);
    for (size_t i = 0; i < count; ++i) write_on_gpu(region, i, page_of(first_key + i));
    return region;
  }
  void overwrite(const Region& region) {
    const std::vector<std::byte> other(region.bytes(), std::byte{0xEE});
    write_on_gpu(region, 0, other);
  }
  static std::vector<std::byte> page_of(size_t number) {
    std::vector<std::byte> page(kPageBytes);
    fill_page(page, key(number), kPut);
    return page;
  }

  static bool are_put(const Ticket& ticket) {
    ticket.wait();
    return std::ranges::all_of(ticket.results(), [](const PutResult& result) {
      return result.code == Code::kOk && result.version > 0;
    });
  }
  static auto all_are(Code code) { return Each(Field(&PutResult::code, code)); }

  // In the nodes, by a fetch into host memory.
  bool has_page_of(size_t number) {
    const Pages landed(*tier_, 1);
    if (!are_ready(tier_->fetch(fetches(landed, number), kTimeoutUs).value())) return false;
    return count_wrong_bytes(landed.page(0), key(number), {kPut, kPut}) == 0;
  }
  bool has_pages_of(size_t count, size_t first_key = 0) {
    for (size_t i = 0; i < count; ++i) {
      if (!has_page_of(first_key + i)) return false;
    }
    return true;
  }
  bool has_none_of(size_t count) {
    const Pages landed(*tier_, count);
    return are(tier_->fetch(fetches(landed), kTimeoutUs).value(), Verdict::kRecompute,
               Reason::kMiss);
  }
};

class GpuPutOver : public GpuPut, public testing::WithParamInterface<Path> {
 protected:
  GpuPutOver() { open_over(GetParam()); }
};

TEST_P(GpuPutOver, StoresPagesOfTheGpu) {
  const Region region = written(40);  // more than the bounce memory has room for at once
  const Ticket ticket = tier_->put(puts_from(region), kTimeoutUs).value();
  ASSERT_TRUE(are_put(ticket)) << ticket.why();
  EXPECT_EQ(ticket.results().size(), 40u);
  EXPECT_EQ(ticket.why(), "");
  ASSERT_TRUE(ticket.wait_released(patience_ns()));
  overwrite(region);
  EXPECT_TRUE(has_pages_of(40));
  EXPECT_EQ(tier_->statistics().puts_acknowledged, 40u);
  EXPECT_EQ(tier_->statistics().puts_failed, 0u);
}

TEST_P(GpuPutOver, ServesManyThreadsBesideFetchesAndPutsOfHostMemory) {
  constexpr size_t kThreads = 4;
  std::vector<Region> sources;
  std::vector<Region> landed;
  for (size_t i = 0; i < kThreads; ++i) {
    sources.push_back(written(20, 100 * i));
    landed.push_back(registered(20));
  }
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (size_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      const size_t first = 100 * thread;
      const Pages host(*tier_, 20, 1);
      // On a busy machine the connection may be lost: then some rounds bring less.
      for (int whole = 0; whole < 5;) {
        const Ticket from_gpu = tier_->put(puts_from(sources[thread], first), kTimeoutUs).value();
        const Ticket from_host = tier_->put(puts(host, first + 50), kTimeoutUs).value();
        if (!are_put(from_gpu) || !are_put(from_host)) continue;
        const Ticket to_gpu = tier_->fetch(fetches_to(landed[thread], first), kTimeoutUs).value();
        whole += are_ready(to_gpu);
        for (size_t i = 0; i < 20; ++i) {
          const bool is_right =
              std::ranges::equal(on_gpu(address_of(landed[thread], i)), page_of(first + i));
          if (is_ready(to_gpu, i) && !is_right) ++wrong;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

// It moves bytes all the same: that is no work of its thread.
TEST_P(GpuPutOver, OfANodeThatHangsIsLateAndKeepsNoPageFromFetches) {
  open_over(GetParam(), 60'000);  // no lease ends meanwhile
  const Region landed = registered(20);
  ASSERT_TRUE(are_put(tier_->put(puts_from(written(20)), kTimeoutUs).value()));
  const Region source = written(60, 100);
  cluster_->hold();
  const Ticket late = tier_->put(puts_from(source, 100), 50'000).value();
  EXPECT_TRUE(are_ready(tier_->fetch(fetches_to(landed), kTimeoutUs).value()));
  late.wait();
  EXPECT_THAT(late.results(), all_are(Code::kTimeout));
  cluster_->go_on();
  ASSERT_TRUE(late.wait_released(patience_ns()));
  ASSERT_TRUE(are_put(tier_->put(puts_from(source, 100), kTimeoutUs).value()));
  EXPECT_TRUE(has_pages_of(60, 100));
}

INSTANTIATE_TEST_SUITE_P(Paths, GpuPutOver, testing::Values(Path::kShm, Path::kTcp, Path::kTls),
                         path_name);

TEST_F(GpuPut, CopiesPagesThatLieSideBySideAtOnce) {
  const Region region = written(8);
  auto requests = puts_from(region);
  fake_->hold(nullptr);
  const Ticket adjacent = tier_->put(requests, kTimeoutUs).value();
  until([this] { return fake_->live().operations == 2; });  // a copy, and the event behind it
  fake_->release(nullptr);
  ASSERT_TRUE(are_put(adjacent));
  until([this] { return fake_->live().operations == 0; });
  std::ranges::reverse(requests);
  fake_->hold(nullptr);
  const Ticket scattered = tier_->put(requests, kTimeoutUs).value();
  until([this] { return fake_->live().operations == 9; });
  fake_->release(nullptr);
  ASSERT_TRUE(are_put(scattered));
  EXPECT_TRUE(has_pages_of(8));
}

TEST_F(GpuPut, BeginsOnlyOnceItsCopiesHavePassed) {
  const Region region = written(2);
  fake_->hold(nullptr);
  const Ticket ticket = tier_->put(puts_from(region), kTimeoutUs).value();
  until_copies_are_under_way();
  EXPECT_TRUE(has_none_of(2));
  EXPECT_FALSE(ticket.done());
  fake_->release(nullptr);
  EXPECT_TRUE(are_put(ticket));
  EXPECT_TRUE(has_pages_of(2));
}

TEST_F(GpuPut, PutsNothingWhoseCopyIsLateAndLendsItsSourceUntilThatHasPassed) {
  const Region region = written(2);
  const Pages host(*tier_, 2, 1);
  fake_->hold(nullptr);
  Ticket ticket;
  // On a busy machine the deadline may come before a copy is started.
  for (uint64_t timeout_us = 50'000; fake_->live().operations == 0; timeout_us *= 2) {
    ticket = tier_->put(puts_from(region), timeout_us).value();
    ticket.wait();
    ASSERT_THAT(ticket.results(), all_are(Code::kTimeout));
  }
  EXPECT_EQ(ticket.why(),
            "cuda:0 had not copied the page by the put's deadline, so it was not put");
  EXPECT_FALSE(ticket.released());
  // Others have their time meanwhile.
  EXPECT_TRUE(are_put(tier_->put(puts(host, 50), kTimeoutUs).value()));
  EXPECT_FALSE(ticket.released());
  fake_->release(nullptr);
  ASSERT_TRUE(ticket.wait_released(patience_ns()));
  EXPECT_EQ(fake_->live().operations, 0);
  overwrite(region);
  EXPECT_TRUE(tier_->flush(kTimeoutUs));
  EXPECT_TRUE(has_none_of(2));
  EXPECT_GE(tier_->statistics().puts_failed, 2u);
  const Region again = written(2);
  ASSERT_TRUE(are_put(tier_->put(puts_from(again), kTimeoutUs).value()));
  EXPECT_TRUE(has_pages_of(2));
}

TEST_F(GpuPut, StartsNoCopyBehindItsDeadline) {
  const Region region = written(1);
  fake_->fail_call("cuMemcpyDtoHAsync_v2", 1, cuda::kLaunchFailed);  // nothing may meet it
  const Ticket ticket = tier_->put(puts_from(region), 0).value();
  ticket.wait();
  EXPECT_THAT(ticket.results(), all_are(Code::kTimeout));
  EXPECT_TRUE(ticket.wait_released(patience_ns()));
  fake_->fail_call("cuMemcpyDtoHAsync_v2", 0, kSuccess);
  EXPECT_TRUE(has_none_of(1));
}

TEST_F(GpuPut, ThatFindsNoBounceMemoryIsLateAndKeepsNoneFromFetches) {
  const Region region = written(2);
  const Region other = written(2, 10);
  const Pages host(*tier_, 2, 1);
  put_all(*tier_, host, 20);
  fake_->hold(nullptr);
  const Ticket first = tier_->put(puts_from(region), kTimeoutUs).value();
  until_copies_are_under_way();
  const Ticket second = tier_->put(puts_from(other, 10), 20'000).value();
  second.wait();
  EXPECT_THAT(second.results(), all_are(Code::kTimeout));
  EXPECT_THAT(second.why(), HasSubstr("puts before it may have the bounce memory"));
  EXPECT_TRUE(second.wait_released(patience_ns()));
  const int before = fake_->live().operations;
  const Ticket fetch = tier_->fetch(fetches_to(other, 20), kTimeoutUs).value();
  until([&] { return fake_->live().operations > before; });  // its pages have landed
  EXPECT_FALSE(first.done());
  fake_->release(nullptr);
  EXPECT_TRUE(are_put(first));
  EXPECT_TRUE(are_ready(fetch));
}

// A large put leaves the next block to the one that has none.
TEST_F(GpuPut, OfFewPagesComesBetweenThoseOfALargeOne) {
  const Region large = written(100);
  const Region small = written(1, 200);
  fake_->hold(nullptr);
  const Ticket first = tier_->put(puts_from(large), kTimeoutUs).value();
  until_copies_are_under_way();
  const Ticket second = tier_->put(puts_from(small, 200), kTimeoutUs).value();
  // Begun in their order: once this one is over, the one before it waits for a block.
  tier_->put(puts_from(small, 300), 0).value().wait();
  fake_->release(nullptr);
  ASSERT_TRUE(are_put(second));
  ASSERT_TRUE(are_put(first));
  EXPECT_LT(second.results()[0].version, first.results()[99].version);
  EXPECT_TRUE(has_pages_of(100));
}

TEST_F(GpuPut, OfAPageThatNoNodeTakesIsInvalid) {
  const Region region = registered(32);
  const std::array requests = {PutRequest{key(0), region.slice(0, 32 * kPageBytes)},
                               PutRequest{key(1), region.slice(0, 2 * kPageBytes)},
                               PutRequest{key(2), region.slice(0, kPageBytes)}};
  const Ticket ticket = tier_->put(requests, kTimeoutUs).value();
  ticket.wait();
  EXPECT_EQ(ticket.results()[0].code, Code::kInvalid);
  EXPECT_EQ(ticket.results()[1].code, Code::kInvalid);
  EXPECT_EQ(ticket.results()[2].code, Code::kOk);
  EXPECT_EQ(ticket.why(),
            "a page of 131072 bytes does not fit: the nodes' pages have 1 to 4096 bytes");
}

TEST_F(GpuPut, FromTwoKindsOfMemoryIsRefused) {
  const Region region = registered(1);
  const Pages host(*tier_, 1);
  const std::array requests = {PutRequest{key(0), host.slice(0)},
                               PutRequest{key(1), region.slice(0, kPageBytes)}};
  const auto refused = tier_->put(requests, kTimeoutUs);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalid);
  EXPECT_EQ(refused.error().message,
            "pages 0 and 1 of the put lie in host memory and in memory of cuda:0: put from each "
            "of them by itself");
}

TEST_F(GpuPut, FromAGpuWithoutRegisteredMemoryIsRefused) {
  Slice nowhere = registered(1).slice(0, kPageBytes);
  nowhere.place.device = 1;
  const std::array requests = {PutRequest{key(0), nowhere}};
  const auto refused = tier_->put(requests, kTimeoutUs);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalid);
  EXPECT_THAT(refused.error().message, HasSubstr("no memory of cuda:1 is registered"));
}

TEST_F(GpuPut, BeyondTheQueueIsRefused) {
  OpenOptions small = options();
  small.lanes.queue_depth = 2;
  tier_ = open(small);
  const Region region = registered(1);
  fake_->hold(nullptr);
  std::vector<Ticket> tickets;
  for (int i = 0; i < 2; ++i) {
    tickets.push_back(tier_->put(puts_from(region), kTimeoutUs).value());
  }
  const auto refused = tier_->put(puts_from(region), kTimeoutUs);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kExhausted);
  EXPECT_EQ(tier_->flush(kTimeoutUs).error().code, Code::kExhausted);
  fake_->release(nullptr);
}

TEST_F(GpuPut, IsFlushed) {
  const Region region = written(2);
  fake_->hold(nullptr);
  const Ticket ticket = tier_->put(puts_from(region), kTimeoutUs).value();
  until_copies_are_under_way();
  const auto early = tier_->flush(10'000);
  EXPECT_EQ(early ? Code::kOk : early.error().code, Code::kTimeout);
  EXPECT_FALSE(ticket.done());
  fake_->release(nullptr);
  ASSERT_TRUE(tier_->flush(kTimeoutUs));
  EXPECT_TRUE(ticket.done());
  EXPECT_TRUE(has_pages_of(2));
}

class GpuPutBehindAStream : public GpuPut {
 protected:
  GpuPutBehindAStream() : region_(written(2)), fresh_(written(2, 10)), stream_(make_stream()) {}
  ~GpuPutBehindAStream() override { destroy(stream_); }

  // The work: it makes other pages of the region's.
  void make_pages() const {
    ASSERT_EQ(
        driver_.copy_on_device(address_of(region_), address_of(fresh_), 2 * kPageBytes, stream_),
        kSuccess);
  }
  Result<Ticket> put(uint64_t timeout_us = kTimeoutUs) const {
    return tier_->put_behind(stream_, puts_from(region_, 10), timeout_us);
  }

  const Region region_;
  const Region fresh_;
  cuda::Stream const stream_;
};

TEST_F(GpuPutBehindAStream, StoresWhatTheWorkHasMade) {
  fake_->hold(stream_);
  make_pages();
  const Ticket ticket = put().value();
  // Others go by it: those that wait for no stream, and fetches.
  EXPECT_TRUE(are_put(tier_->put(puts_from(fresh_, 20), kTimeoutUs).value()));
  EXPECT_TRUE(has_none_of(2));
  EXPECT_FALSE(ticket.done());
  fake_->release(stream_);
  EXPECT_TRUE(are_put(ticket));
  EXPECT_TRUE(has_pages_of(2, 10));
}

TEST_F(GpuPutBehindAStream, OfTheDeviceWaitsForTheDefaultOne) {
  make_pages();
  const Ticket ticket = tier_->put_behind(nullptr, puts_from(fresh_, 10), kTimeoutUs).value();
  EXPECT_TRUE(are_put(ticket));
  EXPECT_TRUE(has_pages_of(2, 10));
  EXPECT_EQ(driver_.wait_for_stream(stream_), kSuccess);
}

TEST_F(GpuPutBehindAStream, ThatIsLateIsNotStoredAndLendsNothing) {
  fake_->hold(stream_);
  make_pages();
  const Ticket ticket = put(20'000).value();
  ticket.wait();
  EXPECT_THAT(ticket.results(), all_are(Code::kTimeout));
  EXPECT_EQ(ticket.why(), "the stream of cuda:0 had not come so far by the put's deadline");
  EXPECT_TRUE(ticket.wait_released(patience_ns()));
  fake_->release(stream_);
  EXPECT_EQ(driver_.wait_for_stream(stream_), kSuccess);
  ASSERT_TRUE(tier_->flush(kTimeoutUs));
  EXPECT_FALSE(has_page_of(10));
}

TEST_F(GpuPutBehindAStream, ThatIsCapturedOrRefusedIsRefused) {
  ASSERT_EQ(later_.begin_capture(stream_, cuda::kCaptureRelaxed), kSuccess);
  const auto captured = put();
  ASSERT_FALSE(captured);
  EXPECT_EQ(captured.error().code, Code::kInvalid);
  EXPECT_THAT(captured.error().message, HasSubstr("is being captured"));
  cuda::Graph graph = nullptr;
  ASSERT_EQ(later_.end_capture(stream_, &graph), kSuccess);
  ASSERT_EQ(later_.destroy_graph(graph), kSuccess);
  for (const char* call :
       {"cuCtxPushCurrent_v2", "cuStreamIsCapturing", "cuEventCreate", "cuEventRecord"}) {
    fake_->fail_call(call, 1, 802);
    const auto refused = put();
    ASSERT_FALSE(refused) << call;
    EXPECT_EQ(refused.error().code, Code::kUnavailable);
    EXPECT_THAT(refused.error().message, HasSubstr("cannot wait for a stream of cuda:0"));
  }
  EXPECT_TRUE(are_put(put().value()));
  const Pages host(*tier_, 1);
  const auto on_host = tier_->put_behind(stream_, puts(host), kTimeoutUs);
  ASSERT_FALSE(on_host);
  EXPECT_THAT(on_host.error().message, HasSubstr("the pages are in host memory"));
}

TEST_F(GpuPut, EndsBeforeItsClientGoes) {
  const Region region = written(2);
  fake_->hold(nullptr);
  const Ticket ticket = tier_->put(puts_from(region), kTimeoutUs).value();
  until_copies_are_under_way();
  std::atomic<bool> has_gone = false;
  std::thread closing([&] {
    tier_.reset();
    has_gone = true;
  });
  EXPECT_FALSE(has_gone);
  fake_->release(nullptr);
  closing.join();
  EXPECT_TRUE(are_put(ticket));
}

}  // namespace
}  // namespace farpage
