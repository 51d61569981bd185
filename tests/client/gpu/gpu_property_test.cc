// Seeded histories of fetches into a GPU's memory, over faults of the wire and of the driver, with
// streams that are out of step. FARPAGE_SEEDS=100000 runs so many.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "base/random.h"
#include "client/connection.h"
#include "client/gpu/gpu_runners.h"
#include "client/runner/fence.h"
#include "replay/page_content.h"
#include "sim/fault/fault_fabric.h"
#include "tests/client/gpu/gpu_client.h"
#include "tests/support/seeds.h"

namespace farpage {
namespace {

constexpr uint64_t kKeys = 24;     // that have a page
constexpr uint64_t kAllKeys = 32;  // that are asked for
constexpr uint64_t kMostPages = 40;
constexpr uint64_t kFetches = 6;
constexpr uint64_t kGpuPages = kFetches * kMostPages;

// Calls that fail once, on the way of registering or of fetching, and what with: of these results
// some end the context.
constexpr std::array kCalls = {"cuDevicePrimaryCtxRetain",
                               "cuPointerGetAttributes",
                               "cuMemGetAddressRange_v2",
                               "cuMemHostRegister_v2",
                               "cuStreamCreate",
                               "cuEventCreate",
                               "cuCtxSetCurrent",
                               "cuMemcpyHtoDAsync_v2",
                               "cuEventRecord",
                               "cuEventQuery"};
constexpr std::array kResults = {
    cuda::kInvalidValue,   cuda::kOutOfMemory, 802, cuda::kInvalidHandle, 999,
    cuda::kIllegalAddress, cuda::kLaunchFailed};

struct Totals {
  uint64_t ready = 0;
  uint64_t recompute = 0;
  uint64_t held = 0;     // tickets that were done and not released
  uint64_t refused = 0;  // registrations
  uint64_t ended = 0;    // contexts
  uint64_t untouched = 0;
};

// A fence whose words nobody waits at.
struct FencedMemory {
  const farpage_fence_words& words() const {
    return *reinterpret_cast<const farpage_fence_words*>(memory.data());
  }

  std::vector<std::byte> memory = std::vector<std::byte>(Fence::bytes_for(kMostPages));
  Fence fence{memory, kMostPages};
};

class GpuHistories : public FakeDriverTest {
 protected:
  static constexpr std::byte kUntouched{0xA5};

  GpuHistories() {
    OpenOptions options;
    options.node = format_address(cluster_.address());
    options.client.staging_bytes = kMiB;
    const auto wrap = [this](Fabric& fabric, const Clock& clock) {
      auto faulty = std::make_unique<fault::FaultFabric>(fabric, clock, 1);
      faults_ = faulty.get();
      return faulty;
    };
    connection_ = Connection::open(options, wrap).value();
    put_pages();
    fault::FaultPlan plan;
    plan.of(fault::FaultKind::kFlippedPayload) = 0.02;
    plan.of(fault::FaultKind::kFlippedHeader) = 0.02;
    plan.of(fault::FaultKind::kTorn) = 0.02;
    plan.of(fault::FaultKind::kShort) = 0.02;
    plan.of(fault::FaultKind::kFailed) = 0.02;
    plan.of(fault::FaultKind::kLate) = 0.02;
    plan.late_max_ns = 2 * kMillisecond;
    faults_->set_plan(plan);
  }
  ~GpuHistories() override { connection_.reset(); }

  void put_pages() {
    std::vector<std::byte> memory(kPageBytes);
    Client& client = connection_->client();
    const Region region = client.register_memory({memory.data(), memory.size()}).value();
    for (uint64_t i = 0; i < kKeys; ++i) {
      fill_page(memory, key(i), i);
      const PutRequest request = {key(i), region.slice(0, kPageBytes)};
      const uint64_t deadline_ns = client.clock().now_ns() + 20 * kSecond;
      ASSERT_EQ(client.put({&request, 1}, deadline_ns).wait()[0].code, Code::kOk);
    }
  }

  struct Begun {
    Ticket ticket;
    std::vector<PageRequest> requests;
    std::vector<uint64_t> keys;
    uint64_t timeout_ns = 0;
    std::shared_ptr<FencedMemory> fenced;
  };

  Begun fetch(Random& random, GpuRunner& runner, const Region& region, uint64_t first) {
    Begun begun;
    const uint64_t pages = 1 + random.below(kMostPages);
    for (uint64_t i = 0; i < pages; ++i) {
      begun.keys.push_back(random.below(kAllKeys));
      begun.requests.push_back(
          {key(begun.keys.back()), 0, region.slice((first + i) * kPageBytes, kPageBytes)});
    }
    constexpr std::array kTimeoutsNs = {uint64_t{0}, 200 * kMicrosecond, 2 * kMillisecond,
                                        20 * kSecond, 20 * kSecond};
    begun.timeout_ns = kTimeoutsNs[random.below(kTimeoutsNs.size())];
    Submission* submission = runner.pool()->take();
    submission->kind = SubmissionKind::kFetch;
    submission->requests = begun.requests;
    submission->deadline_ns = connection_->client().clock().now_ns() + begun.timeout_ns;
    begun.fenced = std::make_shared<FencedMemory>();
    EXPECT_TRUE(begun.fenced->fence.begin(pages));
    submission->notification.fence = &begun.fenced->fence;
    begun.ticket = Ticket(runner.pool(), *submission);
    runner.submit(*submission);
    return begun;
  }

  std::vector<std::byte> peek(const PageRequest& request) const {
    std::vector<std::byte> seen(kPageBytes);
    EXPECT_EQ(
        fake_->peek(reinterpret_cast<uint64_t>(request.destination.data), seen.data(), kPageBytes),
        cuda::kSuccess);
    return seen;
  }
  static bool is_page(std::span<const std::byte> seen, uint64_t number) {
    return count_wrong_bytes(seen, key(number), {number, number}) == 0;
  }
  static bool is_untouched(std::span<const std::byte> seen) {
    return std::ranges::all_of(seen, [](std::byte b) { return b == kUntouched; });
  }

  // As soon as it is done, all that is ready is there.
  void expect_promise(const Begun& begun) {
    begun.ticket.wait();
    totals_.held += !begun.ticket.released();
    const farpage_fence_words& words = begun.fenced->words();
    EXPECT_EQ(words.decided, words.begun);
    for (size_t i = 0; i < begun.requests.size(); ++i) {
      const PageVerdict& page = begun.ticket.verdicts()[i];
      EXPECT_EQ(farpage_fence_is_ready(&words, i), page.verdict == Verdict::kReady);
      if (page.verdict != Verdict::kReady) {
        EXPECT_EQ(page.verdict, Verdict::kRecompute);
        ++totals_.recompute;
        continue;
      }
      ++totals_.ready;
      EXPECT_LT(begun.keys[i], kKeys);
      EXPECT_TRUE(is_page(peek(begun.requests[i]), begun.keys[i])) << "a wrong page is ready";
      EXPECT_LE(page.took_ns, begun.timeout_ns);
    }
  }

  // Of pages that are not ready: nothing, or the page, which came too late.
  std::vector<std::byte> contents(const std::vector<Begun>& all) {
    std::vector<std::byte> contents;
    for (const Begun& begun : all) {
      for (size_t i = 0; i < begun.requests.size(); ++i) {
        const auto seen = peek(begun.requests[i]);
        const bool is_good = is_untouched(seen) || is_page(seen, begun.keys[i]);
        EXPECT_TRUE(is_good) << "a bad page touched its destination";
        totals_.untouched += is_untouched(seen);
        contents.insert(contents.end(), seen.begin(), seen.end());
      }
    }
    return contents;
  }

  void no_more_faults() {
    for (const char* call : kCalls) fake_->fail_call(call, 0, cuda::kSuccess);
  }

  // One history.
  void run(uint64_t seed) {
    Random random(seed);
    start({.seed = seed, .delay_us = random.below(2) == 0 ? 0 : 300u});
    const uint64_t memory = allocate(kGpuPages * kPageBytes);
    bool has_ended = false;
    const auto fail_something = [&] {
      const int result = kResults[random.below(kResults.size())];
      has_ended |= result == cuda::kIllegalAddress || result == cuda::kLaunchFailed;
      fake_->fail_call(kCalls[random.below(kCalls.size())], 1 + static_cast<int>(random.below(6)),
                       result);
    };
    if (random.below(3) == 0) fail_something();
    {
      GpuRunners gpus(connection_->client(), {.queue_depth = kFetches},
                      {.bounce_bytes = 64 * kKiB});
      const auto region = gpus.register_memory(memory, kGpuPages * kPageBytes);
      if (region) {
        fetch_some(random, *gpus.of(0), *region, fail_something);
      } else {
        EXPECT_FALSE(region.error().message.empty());
        ++totals_.refused;
      }
      no_more_faults();
    }
    uint64_t probe = 0;  // a fault that would have ended it may not have come
    const bool lives = driver_.allocate(&probe, 64) == cuda::kSuccess;
    EXPECT_TRUE(lives || has_ended);
    totals_.ended += !lives;
    if (!lives) return;
    EXPECT_EQ(driver_.free(probe), cuda::kSuccess);
    EXPECT_EQ(driver_.free(memory), cuda::kSuccess);
    const cuda::FakeCounts none{.contexts = 1};
    EXPECT_EQ(fake_->live(), none) << "something leaks";
    EXPECT_EQ(driver_.release_context(0), cuda::kSuccess);
  }

  template <typename Fail>
  void fetch_some(Random& random, GpuRunner& runner, const Region& region, const Fail& fail) {
    std::vector<Begun> all;
    for (uint64_t i = 0; i < kFetches; ++i) {
      if (random.below(4) == 0) fake_->hold(nullptr);
      if (random.below(6) == 0) fail();
      all.push_back(fetch(random, runner, region, i * kMostPages));
      if (random.below(2) == 0) {
        if (all.back().timeout_ns >= kSecond) fake_->release(nullptr);
        expect_promise(all.back());
      }
    }
    fake_->release(nullptr);
    for (const Begun& begun : all) expect_promise(begun);
    for (const Begun& begun : all) EXPECT_TRUE(begun.ticket.wait_released(kNever));
    const auto released = contents(all);
    EXPECT_EQ(contents(all), released) << "something was written behind the release";
  }

  // A lane waits for so long until it gives up what a fault has delayed.
  static NodeOptions with_short_reads() {
    NodeOptions options = Cluster::small_options();
    options.reuse_ms = 10;
    return options;
  }

  Cluster cluster_{Path::kShm, with_short_reads()};
  fault::FaultFabric* faults_ = nullptr;
  std::unique_ptr<Connection> connection_;
  Totals totals_;
};

TEST_F(GpuHistories, KeepThePromise) {
  const Seeds seeds = seeds_from_environment(100);
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    run(seed);
    if (HasFailure()) FAIL() << "FARPAGE_SEED=" << seed;
  }
  leave_everything();  // which run() has looked at
  if (seeds.chosen) return;
  for (const uint64_t seen : {totals_.ready, totals_.recompute, totals_.held, totals_.refused,
                              totals_.ended, totals_.untouched}) {
    EXPECT_GT(seen, 0u);
  }
  const auto injected = [this](fault::FaultKind kind) { return faults_->injected().of(kind); };
  EXPECT_GT(injected(fault::FaultKind::kFlippedPayload), 0u);
  EXPECT_GT(injected(fault::FaultKind::kLate), 0u);
}

}  // namespace
}  // namespace farpage
