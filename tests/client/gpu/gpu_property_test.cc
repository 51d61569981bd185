// Seeded histories of fetches into a GPU's memory and of puts from there, over faults of the wire
// and of the driver, with streams that are out of step. FARPAGE_SEEDS=100000 runs so many.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "client/connection.h"
#include "client/gpu/gpu_runners.h"
#include "replay/page_content.h"
#include "sim/fault/fault_fabric.h"
#include "tests/client/gpu/gpu_client.h"
#include "tests/client/gpu/gpu_histories.h"
#include "tests/support/recorded_metrics.h"
#include "tests/support/seeds.h"

namespace farpage {
namespace {

class GpuHistories : public FakeDriverTest {
 protected:
  static constexpr std::byte kUntouched{0xA5};

  GpuHistories() {
    OpenOptions options;
    options.node = format_address(cluster_.address());
    options.client.staging_bytes = kMiB;
    const auto wrap = [this](Fabric& fabric, const Clock& clock) {
      faults_ = std::make_unique<fault::FaultFabric>(fabric, clock, 1);
      return std::make_unique<NicFabric>(*faults_, *fake_, nic_);
    };
    connection_ = Connection::open(options, wrap).value();
    landed_region_ =
        connection_->client().register_memory({landed_.data(), landed_.size()}).value();
    lane_.emplace(connection_->client().open_lane().value());
    put_pages();
    wire_.of(fault::FaultKind::kFlippedPayload) = 0.02;
    wire_.of(fault::FaultKind::kFlippedHeader) = 0.02;
    wire_.of(fault::FaultKind::kTorn) = 0.02;
    wire_.of(fault::FaultKind::kShort) = 0.02;
    wire_.of(fault::FaultKind::kFailed) = 0.02;
    wire_.of(fault::FaultKind::kLate) = 0.02;
    wire_.late_max_ns = 2 * kMillisecond;
    faults_->set_plan(wire_);
  }
  ~GpuHistories() override {
    lane_.reset();
    landed_region_ = {};
    connection_.reset();
  }

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
    uint64_t first = 0;  // page of the region
    uint64_t timeout_ns = 0;
    std::shared_ptr<FencedMemory> fenced;  // null: without a fence
  };

  static uint64_t timeout(Random& random) {
    constexpr std::array kTimeoutsNs = {uint64_t{0}, 200 * kMicrosecond, 2 * kMillisecond,
                                        20 * kSecond, 20 * kSecond};
    return kTimeoutsNs[random.below(kTimeoutsNs.size())];
  }

  Begun fetch(Random& random, GpuRunner& runner, const Region& region, uint64_t first) {
    Begun begun;
    begun.first = first;
    const uint64_t pages = 1 + random.below(kMostPages);
    for (uint64_t i = 0; i < pages; ++i) {
      begun.keys.push_back(random.below(kAllKeys));
      begun.requests.push_back(
          {key(begun.keys.back()), 0, region.slice((first + i) * kPageBytes, kPageBytes)});
    }
    begun.timeout_ns = timeout(random);
    Submission* submission = runner.pool()->take();
    submission->kind = SubmissionKind::kFetch;
    submission->requests = begun.requests;
    submission->deadline_ns = connection_->client().clock().now_ns() + begun.timeout_ns;
    // The device checks pages of the others, and so of all where copies spoil some.
    if (!is_spoiling_ && random.below(2) == 0) {
      begun.fenced = std::make_shared<FencedMemory>();
      EXPECT_TRUE(begun.fenced->fence.begin(pages));
      submission->notification.fence = &begun.fenced->fence;
    }
    begun.ticket = Ticket(runner.pool(), *submission);
    runner.submit(*submission);
    return begun;
  }

  // From the region's pages from the first one on, to keys of its own.
  struct BegunPut {
    Ticket ticket;
    std::vector<PutRequest> requests;
    uint64_t first_key = 0;
  };

  BegunPut put(Random& random, GpuRunner& runner, const Region& region, uint64_t first) {
    BegunPut begun;
    begun.first_key = next_key_;
    const uint64_t pages = 1 + random.below(kMostPages);
    next_key_ += pages;
    std::vector<std::byte> page(kPageBytes);
    const bool is_scattered = random.below(2) == 0;
    for (uint64_t i = 0; i < pages; ++i) {
      const uint64_t place = first + (is_scattered ? pages - 1 - i : i);
      const uint64_t number = begun.first_key + i;
      begun.requests.push_back({key(number), region.slice(place * kPageBytes, kPageBytes)});
      fill_page(page, key(number), number);
      write(begun.requests.back(), page);
    }
    Submission* submission = runner.pool()->take();
    submission->kind = SubmissionKind::kPut;
    submission->puts = begun.requests;
    submission->deadline_ns = connection_->client().clock().now_ns() + timeout(random);
    begun.ticket = Ticket(runner.pool(), *submission);
    runner.submit(*submission);
    return begun;
  }

  // Where the parts of a page lie on the device, in the order of its bytes.
  std::vector<uint64_t> parts_of(const Slice& slice) const {
    if (!is_paged_) return {reinterpret_cast<uint64_t>(slice.data)};
    std::vector<uint64_t> parts;
    const auto offset = static_cast<uint64_t>(slice.data - region_->data());
    for (const uint64_t piece : pieces_) {
      parts.push_back(piece + offset / kPageBytes * kPieceBytes);
    }
    return parts;
  }
  // What its pages are is the fetches' business, as a GPU that is lost takes no more.
  void write(const PutRequest& request, std::span<const std::byte> bytes) const {
    const auto parts = parts_of(request.source);
    const size_t length = bytes.size() / parts.size();
    for (const uint64_t part : parts) {
      const int result = fake_->nic_write(part, bytes.data(), length, cuda::NicWrite::kOvertakes);
      EXPECT_EQ(result, cuda::kSuccess);
      bytes = bytes.subspan(length);
    }
  }

  // From its release on its source may be anything.
  void end_put(const BegunPut& begun) {
    begun.ticket.wait();
    totals_.lent += !begun.ticket.released();
    EXPECT_TRUE(begun.ticket.wait_released(kNever));
    const std::vector<std::byte> other(kPageBytes, std::byte{0xEE});
    for (const PutRequest& request : begun.requests) write(request, other);
  }

  // A page that was put is there; of others there is nothing, or the page.
  void expect_stored(const BegunPut& begun) {
    ASSERT_EQ(begun.ticket.results().size(), begun.requests.size());
    bool all_are_put = true;
    for (size_t i = 0; i < begun.requests.size(); ++i) {
      const uint64_t number = begun.first_key + i;
      const bool is_put = begun.ticket.results()[i].code == Code::kOk;
      all_are_put &= is_put;
      const PageVerdict found = fetch_to_host(number);
      if (found.verdict == Verdict::kReady) {
        EXPECT_TRUE(is_page(landed_, number)) << "a wrong page was put";
      }
      EXPECT_TRUE(!is_put || found.verdict == Verdict::kReady);
      totals_.put += is_put;
      totals_.not_put += found.reason == Reason::kMiss;
    }
    EXPECT_EQ(begun.ticket.why().empty(), all_are_put);
    totals_.misread += begun.ticket.why().find("read its work") != std::string::npos;
  }
  // Until it is ready or a miss: on a busy machine the connection may be lost.
  PageVerdict fetch_to_host(uint64_t number) {
    const PageRequest request = {key(number), 0, landed_region_.slice(0, kPageBytes)};
    PageVerdict verdict;
    while (true) {
      const uint64_t deadline_ns = connection_->client().clock().now_ns() + 20 * kSecond;
      Fetch fetch = lane_->fetch({&request, 1}, {&verdict, 1}, deadline_ns, {});
      fetch.wait();
      if (verdict.verdict == Verdict::kReady || verdict.reason == Reason::kMiss) return verdict;
    }
  }

  std::vector<std::byte> peek(const PageRequest& request) const {
    std::vector<std::byte> seen(kPageBytes);
    const auto parts = parts_of(request.destination);
    const size_t length = kPageBytes / parts.size();
    for (size_t i = 0; i < parts.size(); ++i) {
      EXPECT_EQ(fake_->peek(parts[i], seen.data() + i * length, length), cuda::kSuccess);
    }
    return seen;
  }
  static bool is_page(std::span<const std::byte> seen, uint64_t number) {
    return count_wrong_bytes(seen, key(number), {number, number}) == 0;
  }
  static bool is_untouched(std::span<const std::byte> seen) {
    return std::ranges::all_of(seen, [](std::byte b) { return b == kUntouched; });
  }

  // Of copies of a page's pieces some may have been refused, or have come too late.
  bool has_good_parts(std::span<const std::byte> seen, uint64_t number, Reason reason) const {
    const bool may_be_partial =
        is_paged_ && (reason == Reason::kUnreachable || reason == Reason::kStalled);
    std::vector<std::byte> page(kPageBytes);
    fill_page(page, key(number), number);
    const size_t length = may_be_partial ? kPieceBytes : kPageBytes;
    for (size_t at = 0; at < kPageBytes; at += length) {
      const auto part = seen.subspan(at, length);
      const bool is_there = std::ranges::equal(part, std::span(page).subspan(at, length));
      if (!is_there && !is_untouched(part)) return false;
    }
    return true;
  }

  // As soon as it is done, all that is ready is there.
  void expect_promise(const Begun& begun) {
    begun.ticket.wait();
    totals_.held += !begun.ticket.released();
    const bool is_fenced = begun.fenced != nullptr;
    if (is_fenced) {
      EXPECT_EQ(begun.fenced->words().decided, begun.fenced->words().begun);
    }
    for (size_t i = 0; i < begun.requests.size(); ++i) {
      const PageVerdict& page = begun.ticket.verdicts()[i];
      const bool is_ready = page.verdict == Verdict::kReady;
      if (is_fenced) {
        EXPECT_EQ(farpage_fence_is_ready(&begun.fenced->words(), i), is_ready);
      }
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
        const Reason reason = begun.ticket.verdicts()[i].reason;
        // A copy that spoils a page has its destination, unless a kernel looks first.
        const bool is_spoiled = is_spoiling_ && !is_paged_ && reason != Reason::kNone;
        EXPECT_TRUE(is_spoiled || has_good_parts(seen, begun.keys[i], reason))
            << "a bad page touched its destination";
        totals_.untouched += is_untouched(seen);
        totals_.spoiled += is_spoiling_ && reason == Reason::kCorrupt;
        contents.insert(contents.end(), seen.begin(), seen.end());
      }
      // No page has gone where nobody asked for one.
      for (uint64_t page = begun.requests.size(); page < kMostPages; ++page) {
        PageRequest other;
        other.destination = region_->slice((begun.first + page) * kPageBytes, kPageBytes);
        EXPECT_TRUE(is_untouched(peek(other))) << "a page is where nobody asked for one";
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
    is_spoiling_ = random.below(4) == 0;
    const bool is_ordered = random.below(2) == 0;
    start({.writes_ordering = is_ordered ? 100 : 0,
           .flush_options = is_ordered ? 0 : 1 + static_cast<int>(random.below(2)),
           .seed = seed,
           .delay_us = random.below(2) == 0 ? 0 : 300u,
           .spoil_every = is_spoiling_ ? 7u : 0u,
           .spoil_items_every = is_spoiling_ ? 9u : 0u});
    const uint64_t memory = allocate(kGpuPages * kPageBytes);
    is_paged_ = random.below(3) == 0;
    for (uint64_t i = 0; i < kPieces; ++i) pieces_[i] = memory + i * kGpuPages * kPieceBytes;
    bool has_ended = false;
    const bool is_straight = random.below(2) == 0;  // as soon as the pool is registered
    const auto fail_something = [&] {
      if (is_spoiling_) return;  // without a kernel, nothing would find what is spoiled
      const int result = kResults[random.below(kResults.size())];
      has_ended |= result == cuda::kIllegalAddress || result == cuda::kLaunchFailed;
      fake_->fail_call(kCalls[random.below(kCalls.size())], 1 + static_cast<int>(random.below(6)),
                       result);
    };
    if (random.below(3) == 0) fail_something();
    {
      WriteRunner writes(connection_->client(), {});
      GpuRunners gpus(connection_->client(), writes, {.queue_depth = kOperations},
                      {.bounce_bytes = 64 * kKiB,
                       .straight_bytes = is_straight ? 0 : kNever,
                       .landing = random.below(2) == 0 ? "host" : "auto"});
      const auto region = is_paged_ ? gpus.register_blocks(blocks())
                                    : gpus.register_memory(memory, kGpuPages * kPageBytes);
      if (region) {
        region_ = &*region;
        if (is_straight) await_pool();
        const uint64_t before = metric("farpage_client_gpu_checked_pages_total");
        move_some(random, *gpus.of(0), *region, fail_something);
        const uint64_t checked = metric("farpage_client_gpu_checked_pages_total") - before;
        totals_.scattered += is_paged_ ? checked : 0;
        const uint64_t launched = fake_->calls("farpage_gather_pages");
        totals_.gathered += launched - std::min<uint64_t>(launched, 1);
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

  cuda::GpuBlocks blocks() const {
    return {.pieces = pieces_,
            .piece_bytes = kPieceBytes,
            .block_stride = kPieceBytes,
            .count = kGpuPages};
  }
  // For a while: a fault may have come between.
  void await_pool() const {
    const Clock& clock = connection_->client().clock();
    const uint64_t until_ns = clock.now_ns() + 5 * kMillisecond;
    while (fake_->live().host_ranges < 3 && clock.now_ns() < until_ns) std::this_thread::yield();
  }
  uint64_t metric(const char* name) const {
    RecordedMetrics metrics;
    connection_->client().describe(metrics);
    return static_cast<uint64_t>(metrics.values.at(name));
  }

  template <typename Fail>
  void move_some(Random& random, GpuRunner& runner, const Region& region, const Fail& fail) {
    std::vector<Begun> all;
    std::vector<BegunPut> puts;
    for (uint64_t i = 0; i < kOperations; ++i) {
      if (random.below(4) == 0) fake_->hold(nullptr);
      if (random.below(6) == 0) fail();
      const bool is_put = all.size() == kFetches || (puts.size() < kPuts && random.below(2) == 0);
      if (is_put) {
        puts.push_back(put(random, runner, region, i * kMostPages));
        continue;
      }
      all.push_back(fetch(random, runner, region, i * kMostPages));
      if (random.below(2) == 0) {
        if (all.back().timeout_ns >= kSecond) fake_->release(nullptr);
        expect_promise(all.back());
      }
    }
    fake_->release(nullptr);
    for (const BegunPut& begun : puts) end_put(begun);
    for (const Begun& begun : all) expect_promise(begun);
    for (const Begun& begun : all) EXPECT_TRUE(begun.ticket.wait_released(kNever));
    const auto released = contents(all);
    EXPECT_EQ(contents(all), released) << "something was written behind the release";
    // A wire that spoils both looks into the index hides a page that is there.
    faults_->set_plan({});
    for (const BegunPut& begun : puts) expect_stored(begun);
    faults_->set_plan(wire_);
    remove_all(puts);
  }

  // There is room for the next history's.
  void remove_all(const std::vector<BegunPut>& puts) {
    std::vector<PageKey> keys;
    for (const BegunPut& begun : puts) {
      for (const PutRequest& request : begun.requests) keys.push_back(request.key);
    }
    Client& client = connection_->client();
    while (!client.remove(keys, client.clock().now_ns() + 20 * kSecond).wait()) {
      // On a busy machine the connection may be lost.
    }
  }

  // A lane waits for so long until it gives up what a fault has delayed.
  static NodeOptions with_short_reads() {
    NodeOptions options = Cluster::small_options();
    options.reuse_ms = 10;
    return options;
  }

  Cluster cluster_{Path::kShm, with_short_reads()};
  NicSettings nic_;
  std::unique_ptr<fault::FaultFabric> faults_;
  fault::FaultPlan wire_;
  std::unique_ptr<Connection> connection_;
  std::optional<Lane> lane_;  // into the host's memory
  std::vector<std::byte> landed_ = std::vector<std::byte>(kPageBytes);
  Region landed_region_;
  uint64_t next_key_ = kAllKeys;  // of puts
  bool is_spoiling_ = false;      // copies of this history spoil pages
  bool is_paged_ = false;         // it has blocks; where its pages lie
  std::array<uint64_t, kPieces> pieces_ = {};
  const Region* region_ = nullptr;
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
                              totals_.ended, totals_.untouched, totals_.put, totals_.not_put,
                              totals_.lent, totals_.scattered, totals_.spoiled, totals_.gathered,
                              totals_.misread, metric("farpage_client_straight_pages_total"),
                              metric("farpage_client_gpu_landed_pages_total{landing=host}"),
                              metric("farpage_client_gpu_landed_pages_total{landing=dma-buf}"),
                              metric("farpage_client_gpu_checked_pages_total"),
                              metric("farpage_client_gpu_spoiled_pages_total")}) {
    EXPECT_GT(seen, 0u);
  }
  const auto injected = [this](fault::FaultKind kind) { return faults_->injected().of(kind); };
  EXPECT_GT(injected(fault::FaultKind::kFlippedPayload), 0u);
  EXPECT_GT(injected(fault::FaultKind::kLate), 0u);
}

}  // namespace
}  // namespace farpage
