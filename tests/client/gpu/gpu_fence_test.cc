// Work on a GPU's streams that waits for the verdicts of a fetch.

#include <gmock/gmock.h>

#include <array>
#include <thread>

#include "client/gpu/stream_fence.h"
#include "tests/client/gpu/gpu_client.h"

namespace farpage {
namespace {

using cuda::kSuccess;
using testing::HasSubstr;

constexpr size_t kPages = 4;

class GpuFence : public GpuClient {
 protected:
  GpuFence() {
    tier_ = open(options());
    sources_.emplace(*tier_, kPages, uint8_t{1});
    put_all(*tier_, *sources_);
    region_ = registered(kPages);
    seen_ = pages_on_gpu(kPages);
    stream_ = make_stream();
    fence_ = tier_->make_fence(0, kPages).value();
  }
  ~GpuFence() override {
    if (stream_ != nullptr) destroy(stream_);
    fence_.reset();
    sources_.reset();
  }

  Notification to_fence() const {
    Notification notification;
    notification.fence = &fence_->fence();
    return notification;
  }
  Ticket fetch(size_t first_key = 0, uint64_t timeout_us = kTimeoutUs) const {
    return tier_->fetch(fetches_to(region_, first_key), timeout_us, {}, to_fence()).value();
  }
  // What a kernel would do behind the wait.
  void read_on_stream() const {
    ASSERT_EQ(driver_.copy_on_device(seen_, address_of(region_), kPages * kPageBytes, stream_),
              kSuccess);
  }
  // What the stream has read is the pages.
  bool has_seen_pages() const {
    EXPECT_EQ(driver_.wait_for_stream(stream_), kSuccess);
    for (size_t i = 0; i < kPages; ++i) {
      if (!std::ranges::equal(on_gpu(seen_ + i * kPageBytes), sources_->page(i))) return false;
    }
    return true;
  }
  farpage_fence_words words() const {
    farpage_fence_words words;
    EXPECT_EQ(fake_->peek(fence_->address(), &words, sizeof words), kSuccess);
    return words;
  }
  uint32_t bits() const {
    uint32_t bits = 0;
    EXPECT_EQ(fake_->peek(fence_->address() + sizeof(farpage_fence_words), &bits, sizeof bits),
              kSuccess);
    return bits;
  }
  // Other streams have had turn after turn.
  bool waits(cuda::Stream stream) {
    cuda::Stream const other = make_stream();
    for (int i = 0; i < 20; ++i) {
      EXPECT_EQ(driver_.fill(seen_, 1, 1, other), kSuccess);
      EXPECT_EQ(driver_.wait_for_stream(other), kSuccess);
    }
    destroy(other);
    return later_.stream_done(stream) == cuda::kNotReady;
  }

  // A graph of the wait, and of a read of the bits behind it.
  struct Graph {
    cuda::Graph captured = nullptr;
    cuda::GraphExec exec = nullptr;
  };
  Graph capture() {
    Graph graph;
    EXPECT_EQ(later_.begin_capture(stream_, 0), kSuccess);
    EXPECT_TRUE(fence_->wait_on(stream_));
    EXPECT_EQ(
        driver_.copy_on_device(seen_, fence_->address() + sizeof(farpage_fence_words), 4, stream_),
        kSuccess);
    EXPECT_EQ(later_.end_capture(stream_, &graph.captured), kSuccess);
    EXPECT_EQ(later_.instantiate_graph(&graph.exec, graph.captured, 0), kSuccess);
    return graph;
  }
  uint32_t replay(const Graph& graph) {
    EXPECT_EQ(later_.launch_graph(graph.exec, stream_), kSuccess);
    EXPECT_EQ(driver_.wait_for_stream(stream_), kSuccess);
    uint32_t bits = 0;
    EXPECT_EQ(fake_->peek(seen_, &bits, sizeof bits), kSuccess);
    return bits;
  }
  void end(const Graph& graph) {
    EXPECT_EQ(later_.destroy_graph_exec(graph.exec), kSuccess);
    EXPECT_EQ(later_.destroy_graph(graph.captured), kSuccess);
  }

  std::optional<Pages> sources_;
  Region region_;
  uint64_t seen_ = 0;  // memory of the device
  cuda::Stream stream_ = nullptr;
  std::shared_ptr<StreamFence> fence_;
};

TEST_F(GpuFence, HoldsAStreamUntilItsFetchHasItsVerdicts) {
  ASSERT_TRUE(fence_->fence().begin(1));
  ASSERT_TRUE(fence_->wait_on(stream_));
  EXPECT_TRUE(waits(stream_));
  fence_->fence().decide({});
  EXPECT_EQ(driver_.wait_for_stream(stream_), kSuccess);
}

TEST_F(GpuFence, LetsWorkBehindItSeeThePages) {
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(driver_.fill(address_of(region_), 0, kPages * kPageBytes, stream_), kSuccess);
    ASSERT_EQ(driver_.wait_for_stream(stream_), kSuccess);
    const Ticket ticket = fetch();
    ASSERT_TRUE(fence_->wait_on(stream_));
    read_on_stream();
    EXPECT_TRUE(has_seen_pages()) << i;
    EXPECT_EQ(bits(), 0b1111u);
    EXPECT_TRUE(are_ready(ticket));
  }
}

TEST_F(GpuFence, SaysWhichPagesAreReady) {
  const Ticket ticket = fetch(2);  // of four, two are there
  ticket.wait();
  EXPECT_EQ(bits(), 0b0011u);
  EXPECT_EQ(words().begun, 1u);
  EXPECT_EQ(words().decided, 1u);
  EXPECT_EQ(words().pages, kPages);
}

TEST_F(GpuFence, IsForFetchesIntoHostMemoryToo) {
  const Pages landed(*tier_, kPages, 100);
  const Ticket ticket = tier_->fetch(fetches(landed), kTimeoutUs, {}, to_fence()).value();
  EXPECT_TRUE(are_ready(ticket));
  EXPECT_EQ(bits(), 0b1111u);
}

// The copies stand still, and the stream that waits for them goes on.
TEST_F(GpuFence, LetsAStreamGoAtTheDeadline) {
  fake_->hold(nullptr);
  fake_->release(stream_);
  const Ticket ticket = fetch(0, 20'000);
  ASSERT_TRUE(fence_->wait_on(stream_));
  EXPECT_EQ(driver_.wait_for_stream(stream_), kSuccess);
  EXPECT_EQ(bits(), 0u);
  fake_->release(nullptr);
}

TEST_F(GpuFence, SaysAtTheDeadlineThatPagesWhoseCopiesAreUnderWayAreNotReady) {
  fake_->hold(nullptr);
  const Ticket ticket = fetch(0, 20'000);
  ticket.wait();
  EXPECT_EQ(words().decided, 1u);
  EXPECT_EQ(bits(), 0u);
  fake_->release(nullptr);
  EXPECT_TRUE(ticket.wait_released(patience_ns()));
  EXPECT_EQ(bits(), 0u);
}

TEST_F(GpuFence, HoldsEachReplayOfAGraphForTheFetchBeforeIt) {
  const Graph graph = capture();
  ASSERT_TRUE(fence_->fence().begin(1));
  EXPECT_EQ(later_.launch_graph(graph.exec, stream_), kSuccess);
  EXPECT_TRUE(waits(stream_));
  fence_->fence().decide({});
  EXPECT_EQ(driver_.wait_for_stream(stream_), kSuccess);
  for (const size_t first_key : {0, 2, 3, 40, 1}) {
    const Ticket ticket = fetch(first_key);
    const uint32_t ready = first_key > kPages ? 0 : 0b1111u >> first_key;
    EXPECT_EQ(replay(graph), ready) << first_key;
  }
  end(graph);
}

// A capture in global mode is lost by what other threads do, if they are not careful.
TEST_F(GpuFence, AndFetchesLeaveACaptureAlone) {
  ASSERT_EQ(later_.begin_capture(stream_, 0), kSuccess);
  EXPECT_TRUE(are_ready(fetch()));
  std::thread([this] { EXPECT_TRUE(tier_->make_fence(0, kPages)); }).join();
  ASSERT_TRUE(fence_->wait_on(stream_));
  cuda::Graph graph = nullptr;
  ASSERT_EQ(later_.end_capture(stream_, &graph), kSuccess);
  EXPECT_EQ(later_.destroy_graph(graph), kSuccess);
}

TEST_F(GpuFence, FindsNoPageReadyOnceTheClientIsClosed) {
  const Graph graph = capture();
  {
    const Ticket ticket = fetch();
    EXPECT_EQ(replay(graph), 0b1111u);
  }
  sources_.reset();
  region_ = {};
  tier_.reset();
  EXPECT_EQ(replay(graph), 0u);
  end(graph);
}

TEST_F(GpuFence, FindsNoPageReadyAfterAFetchThatWasRefused) {
  const Graph graph = capture();
  {
    const Ticket ticket = fetch();
    EXPECT_EQ(replay(graph), 0b1111u);
  }
  const auto twice = std::array{fetches_to(region_)[0], fetches_to(region_)[0]};
  const auto refused = tier_->fetch(twice, kTimeoutUs, {}, to_fence());
  ASSERT_FALSE(refused);
  EXPECT_EQ(replay(graph), 0u);
  end(graph);
}

TEST_F(GpuFence, IsOneFetchsAtATime) {
  fake_->hold(nullptr);
  const Ticket ticket = fetch();
  const auto second = tier_->fetch(fetches_to(region_), kTimeoutUs, {}, to_fence());
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().message, HasSubstr("the last fetch with this fence is under way"));
  fake_->release(nullptr);
  EXPECT_TRUE(are_ready(ticket));
  EXPECT_EQ(bits(), 0b1111u);
}

TEST_F(GpuFence, HasNothingToDoWithAStreamThatIsDestroyedMeanwhile) {
  fake_->hold(nullptr);
  const Ticket ticket = fetch();
  ASSERT_TRUE(fence_->wait_on(stream_));
  ASSERT_EQ(driver_.destroy_stream(stream_), kSuccess);
  stream_ = nullptr;
  fake_->release(nullptr);
  EXPECT_TRUE(are_ready(ticket));
  until([this] { return fake_->live().operations == 0; });
}

TEST_F(GpuFence, RefusesAFetchWithoutADeadline) {
  const auto refused = tier_->fetch(fetches_to(region_), UINT64_MAX, {}, to_fence());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalid);
  EXPECT_THAT(refused.error().message, HasSubstr("give it a timeout"));
  EXPECT_EQ(words().decided, words().begun);
}

TEST_F(GpuFence, RefusesOtherOperationsThanFetches) {
  const std::array keys = {key(0)};
  for (const auto& refused :
       {tier_->exists(keys, kTimeoutUs, to_fence()), tier_->remove(keys, kTimeoutUs, to_fence()),
        tier_->put({}, kTimeoutUs, to_fence())}) {
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::kInvalid);
    EXPECT_THAT(refused.error().message, HasSubstr("a fence is for fetches alone"));
  }
}

// No other context's default stream waits in its place.
TEST_F(GpuFence, RefusesToWaitWithoutItsContext) {
  fake_->fail_call("cuCtxPushCurrent_v2", 1, cuda::kInvalidContext);
  const auto refused = fence_->wait_on(nullptr);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnavailable);
}

TEST_F(GpuFence, RefusesAStreamThatIsNone) {
  cuda::Stream const gone = make_stream();
  destroy(gone);
  const auto refused = fence_->wait_on(gone);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnavailable);
  EXPECT_THAT(refused.error().message, HasSubstr("CUDA_ERROR_INVALID_HANDLE"));
  expect_broken(cuda::kInvalidHandle, cuda::kInvalidHandle, "there is no such stream");
}

TEST_F(GpuFence, RefusesPagesThatNoFetchHas) {
  for (const uint32_t pages : {0u, Fence::kMostPages + 1}) {
    const auto refused = tier_->make_fence(0, pages);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::kInvalid);
    EXPECT_THAT(refused.error().message, HasSubstr("give it 1 to 16777216"));
  }
}

TEST_F(GpuFence, OfAGpuThatIsNotThereIsRefused) {
  const auto refused = tier_->make_fence(7, 1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnavailable);
  EXPECT_THAT(refused.error().message, HasSubstr("cuda:7"));
}

TEST_F(GpuFence, LeavesNothingBehindWhenItCannotBeMade) {
  const cuda::FakeCounts before = fake_->live();
  for (const char* call :
       {"cuDevicePrimaryCtxRetain", "cuMemHostRegister_v2", "cuMemHostGetDevicePointer_v2"}) {
    fake_->fail_call(call, 1, cuda::kOutOfMemory);
    const auto refused = tier_->make_fence(0, kPages);
    ASSERT_FALSE(refused) << call;
    EXPECT_FALSE(refused.error().message.empty());
    EXPECT_EQ(fake_->live(), before) << call;
  }
}

// A GPU that takes no kernel of this build, or a build that has none.
class GpuFenceWithoutKernels : public GpuFence {
 protected:
  GpuFenceWithoutKernels() {
    fake_->fail_call("cuModuleLoadData", 1, cuda::kInvalidImage);
    fence_ = tier_->make_fence(0, kPages).value();
  }
};

TEST_F(GpuFenceWithoutKernels, LetsWorkBehindItSeeThePages) {
  ASSERT_TRUE(fence_->fence().begin(1));
  ASSERT_TRUE(fence_->wait_on(stream_));
  EXPECT_TRUE(waits(stream_));
  fence_->fence().decide({});
  const Ticket ticket = fetch();
  ASSERT_TRUE(fence_->wait_on(stream_));
  read_on_stream();
  EXPECT_TRUE(has_seen_pages());
}

TEST_F(GpuFenceWithoutKernels, IsRefusedInAGraph) {
  ASSERT_EQ(later_.begin_capture(stream_, 0), kSuccess);
  const auto refused = fence_->wait_on(stream_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalid);
  EXPECT_THAT(refused.error().message, HasSubstr("put the wait outside of the graph"));
  cuda::Graph graph = nullptr;
  ASSERT_EQ(later_.end_capture(stream_, &graph), kSuccess);
  EXPECT_EQ(later_.destroy_graph(graph), kSuccess);
}

TEST_F(GpuFenceWithoutKernels, IsRefusedByADriverThatWaitsForNoValues) {
  fake_->fail_call("cuStreamWaitValue64_v2", 1, cuda::kNotSupported);
  const auto refused = fence_->wait_on(stream_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnavailable);
  EXPECT_THAT(refused.error().message, HasSubstr("a stream of cuda:0 cannot wait at a fence"));
}

}  // namespace
}  // namespace farpage
