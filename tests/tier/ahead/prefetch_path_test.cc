#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "prefetch/registry/registry.h"
#include "tests/support/cluster.h"
#include "tests/support/engine.h"
#include "tier/ahead/prefetch_lane.h"

namespace farpage {
namespace {

// The same over real wires, with a prefetcher that there is.
class PrefetchPath : public ::testing::TestWithParam<Path> {
 protected:
  static constexpr uint64_t kPageBytes = 4 * kKiB;
  static constexpr uint64_t kPages = 16;

  static std::unique_ptr<prefetch::Prefetcher> prefetcher(const char* name) {
    return prefetch::choose_prefetcher(name)->make(
        {.budget_pages = kPages, .layout = {}, .page_bytes = nullptr, .future = nullptr});
  }
  PrefetchLane open(const char* name) {
    PrefetchOptions options;
    options.landing_pages = 2 * kPages;
    options.patience_ns = 10 * kSecond;
    return PrefetchLane::open(*client_, options, prefetcher(name)).value();
  }
  void put_all() {
    for (uint64_t number = 0; number < kPages; ++number) {
      ASSERT_EQ(engine_.put(test_key(number), 100 + number).code, Code::kOk);
      keys_.push_back(test_key(number));
      requests_.push_back({test_key(number), 0, engine_.slice(1 + number)});
    }
    verdicts_.resize(kPages);
  }
  // Until so many are here; it has all the time that it needs.
  void bring(PrefetchLane& lane, uint64_t count) {
    for (uint64_t spins = 0; lane.report().here < count; ++spins) {
      lane.progress();
      ASSERT_LT(engine_.client().clock().now_ns(), started_ns_ + 60 * kSecond) << lane.status();
    }
  }
  size_t fetch(PrefetchLane& lane, const DemandOptions& options = {}) {
    const DemandFetch fetch = [&] {
      DemandFetch begun = lane.fetch(requests_, verdicts_, engine_.deadline(30 * kSecond), options);
      begun.wait();
      return begun;
    }();
    size_t lent = 0;
    for (uint64_t page = 0; page < kPages; ++page) {
      EXPECT_EQ(verdicts_[page].verdict, Verdict::kReady) << page;
      if (verdicts_[page].landed == nullptr) continue;
      const std::span bytes(verdicts_[page].landed, kPageBytes);
      EXPECT_EQ(count_wrong_bytes(bytes, keys_[page], {100, 1'000}), 0u);
      lent += verdicts_[page].landed != requests_[page].destination.data;
    }
    return lent;
  }

  Cluster cluster_{GetParam()};
  std::unique_ptr<Client> client_ = cluster_.connect();
  Engine engine_{*client_, kPageBytes, 1 + kPages};
  const uint64_t started_ns_ = client_->clock().now_ns();
  std::vector<PageKey> keys_;
  std::vector<PageRequest> requests_;
  std::vector<PageVerdict> verdicts_;
};

TEST_P(PrefetchPath, WhatWasAnnouncedIsThereBeforeItIsDemanded) {
  put_all();
  PrefetchLane lane = open("none");
  lane.announce(keys_);
  bring(lane, kPages);
  EXPECT_EQ(fetch(lane), kPages);
  EXPECT_EQ(lane.report().pages.timely, kPages);
  EXPECT_EQ(lane.report().taken_places, 0u);
  lane.announce(keys_);
  bring(lane, kPages);
  const PutResult newer = engine_.put(test_key(3), 500);
  EXPECT_EQ(fetch(lane), kPages - 1);
  EXPECT_EQ(verdicts_[3].version, newer.version);
  EXPECT_EQ(page_put_number({requests_[3].destination.data, kPageBytes}), 500u);
}

TEST_P(PrefetchPath, DemandWhileAllIsUnderWayGetsEveryPage) {
  put_all();
  PrefetchLane lane = open("none");
  for (int round = 0; round < 50; ++round) {
    lane.announce(keys_);
    for (int turn = 0; turn < round; ++turn) lane.progress();
    fetch(lane, {.allow_cached = round % 2 == 0});
  }
  for (uint64_t spins = 0; lane.report().under_way > 0 && spins < 1'000'000; ++spins) {
    lane.progress();
  }
  lane.withdraw(keys_);
  EXPECT_EQ(lane.report().taken_places, 0u) << lane.status();
}

// Nothing else drives the lane.
TEST_P(PrefetchPath, AWaitBringsWhatIsAnnounced) {
  put_all();
  PrefetchLane lane = open("none");
  const uint64_t patience_ns = client_->clock().now_ns() + 30 * kSecond;
  for (size_t round = 0; round < 500; ++round) {
    const std::span<const PageKey> key = std::span(keys_).subspan(round % kPages, 1);
    lane.announce(key);
    while (lane.report().here == 0 && client_->clock().now_ns() < patience_ns) {
      lane.wait(patience_ns);
    }
    ASSERT_EQ(lane.report().here, 1u) << round << ": " << lane.status();
    lane.withdraw(key);
    ASSERT_EQ(lane.report().taken_places, 0u);
  }
}

// With pages under way or without, asleep or not yet.
TEST_P(PrefetchPath, AnInterruptEndsAWait) {
  put_all();
  PrefetchLane lane = open("none");
  lane.allow_interrupts();
  const uint64_t patience_ns = client_->clock().now_ns() + 30 * kSecond;
  std::atomic<int> asked = 0;
  std::atomic<int> heard = 0;
  std::thread other([&] {
    for (int i = 1; i <= 200; ++i) {
      asked = i;
      lane.interrupt();
      while (heard < i && client_->clock().now_ns() < patience_ns) std::this_thread::yield();
    }
  });
  // A wait that none interrupts would last until the patience has ended.
  while (heard < 200 && client_->clock().now_ns() < patience_ns) {
    lane.wait(patience_ns);
    if (asked == heard) continue;
    if (asked % 4 == 0) lane.announce(keys_);
    if (asked % 4 == 2) lane.withdraw(keys_);
    heard = asked.load();
  }
  other.join();
  EXPECT_EQ(heard, 200);
  EXPECT_LT(client_->clock().now_ns(), patience_ns);
}

TEST_P(PrefetchPath, PrefetcherHasThePagesOfTheStepBeforeThereAgain) {
  put_all();
  PrefetchLane lane = open("previous_selection");
  std::vector<ObservedAccess> accesses;
  for (const PageKey& key : keys_) accesses.push_back({.key = key});
  for (uint64_t step = 1; step < 4; ++step) {
    for (ObservedAccess& access : accesses) access.step = step;
    lane.observe(accesses);
  }
  bring(lane, 1);
  EXPECT_GT(fetch(lane), 0u);
}

// On shm each page that lands is copied by the engine's thread.
TEST(PrefetchCopies, WaitAsLongAsADemandHasPagesThatCome) {
  NodeOptions node = Cluster::small_options();
  node.page_bytes = 256 * kKiB;  // one is all that a turn copies
  node.pool_bytes = 64 * kMiB;
  node.reuse_ms = 10'000;  // a page that is older would end its path, and those ahead could come
  Cluster cluster(Path::kShm, node);
  const auto client = cluster.connect();
  constexpr uint64_t kPages = 16;
  Engine engine(*client, node.page_bytes, 1 + kPages);
  std::vector<PageKey> keys;
  std::vector<PageRequest> requests;
  for (uint64_t number = 0; number < 2 * kPages; ++number) {
    ASSERT_EQ(engine.put(test_key(number), 1).code, Code::kOk);
    if (number < kPages) {
      requests.push_back({test_key(number), 0, engine.slice(1 + number)});
    } else {
      keys.push_back(test_key(number));
    }
  }
  PrefetchOptions options;
  options.patience_ns = 30 * kSecond;
  PrefetchLane lane =
      PrefetchLane::open(
          *client, options,
          prefetch::choose_prefetcher("none")->make(
              {.budget_pages = 1, .layout = {}, .page_bytes = nullptr, .future = nullptr}))
          .value();
  std::vector<PageVerdict> verdicts(kPages);
  for (int round = 0; round < 5; ++round) {
    const uint64_t copied = lane.prefetch_stats().pages_ready;
    lane.announce(keys);
    DemandFetch demand = lane.fetch(requests, verdicts, engine.deadline(30 * kSecond));
    ASSERT_FALSE(demand.done());
    if (round % 2 == 0) {
      demand.wait();
    } else {
      while (!demand.done()) lane.progress();
    }
    EXPECT_EQ(lane.prefetch_stats().pages_ready, copied);
    do {
      lane.progress();
    } while (lane.report().under_way > 0);
    EXPECT_GT(lane.prefetch_stats().pages_ready, copied);
    lane.withdraw(keys);
  }
}

INSTANTIATE_TEST_SUITE_P(Paths, PrefetchPath, testing::Values(Path::kShm, Path::kTcp), path_name);

}  // namespace
}  // namespace farpage
