// How a lane passes its time while several nodes have been asked.
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "base/unique_fd.h"
#include "prefetch/registry/registry.h"
#include "tests/tier/link/tcp_fleet.h"
#include "tests/tier/watched_fabric.h"
#include "tier/ahead/prefetch_lane.h"
#include "tier/fetch/lane_engine.h"

namespace farpage {

struct HeldPublication {
  template <typename T>
  static std::unique_lock<std::mutex> lock(const Published<T>& published) {
    return std::unique_lock(published.mutex_);
  }
};

namespace {

constexpr uint64_t kPatienceNs = 4 * kSecond;
// Waits, each of which ends by itself after 10 ms at most: so many of those are beyond patience.
constexpr uint64_t kMany = 2'000;
constexpr uint64_t kFew = 20;

bool is_asleep(pid_t thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
  const std::string stat(std::istreambuf_iterator<char>(file), {});
  const size_t name_ends = stat.rfind(')');
  return name_ends != std::string::npos && stat.compare(name_ends, 3, ") S") == 0;
}

class LaneWaits : public testing::Test {
 protected:
  LaneWaits() {
    for (const PageKey& key : keys_) EXPECT_EQ(engine_.put(key, 1).code, Code::kOk);
    // Both paths are open, and the lane knows where the pages are.
    for (int round = 0; round < 20; ++round) EXPECT_TRUE(fetch());
  }

  static NodeOptions patient() {
    NodeOptions options;
    options.pool_bytes = kMiB;
    options.reuse_ms = 2 * kPatienceNs / kMillisecond;
    options.lease_ms = 4 * kPatienceNs / kMillisecond;
    return options;
  }

  // One page of each node. Whether both came.
  bool fetch() {
    const std::array<PageRequest, 2> requests = {
        {{keys_[0], 0, engine_.slice(1)}, {keys_[1], 0, engine_.slice(2)}}};
    std::array<PageVerdict, 2> verdicts;
    engine_.lane().fetch(requests, verdicts, engine_.deadline(kPatienceNs)).wait();
    return std::ranges::all_of(
        verdicts, [](const PageVerdict& verdict) { return verdict.verdict == Verdict::kReady; });
  }

  TcpFleet fleet_{patient()};
  std::array<PageKey, 2> keys_ = {fleet_.key_at(0), fleet_.key_at(1)};
  std::unique_ptr<tcp::TcpFabric> inner_ = tcp::make_tcp_fabric({}).value();
  WatchedFabric fabric_{*inner_};
  std::unique_ptr<Client> client_ =
      Client::connect({}, fleet_.client_runtime, fabric_, fleet_.fleet()).value();
  Engine engine_{*client_, TcpFleet::kPageBytes, 3};
};

TEST_F(LaneWaits, AnAnswerWakesIt) {
  // Completions that have come and are not told keep the channel's descriptor readable.
  fabric_.hold(kMany);
  const uint64_t waits = fabric_.waits();
  EXPECT_TRUE(fetch());
  EXPECT_EQ(fabric_.waits(), waits) << "it waited for one channel alone";
}

// ... also where nothing is under way over the lane for demands.
TEST_F(LaneWaits, WhatComesAheadWakesAPrefetchLane) {
  PrefetchOptions options;
  options.patience_ns = 2 * kPatienceNs;
  auto lane = PrefetchLane::open(*client_, options,
                                 prefetch::choose_prefetcher("none")->make(prefetch::Setting()))
                  .value();
  const auto bring = [&] {
    lane.announce(keys_);
    const uint64_t until_ns = client_->clock().now_ns() + kPatienceNs;
    while (lane.report().here < 2 && client_->clock().now_ns() < until_ns) lane.wait(until_ns);
    EXPECT_EQ(lane.report().here, 2u) << lane.status();
    lane.withdraw(keys_);
  };
  bring();
  const uint64_t waits = fabric_.waits();
  fabric_.hold(kMany);
  bring();
  EXPECT_EQ(fabric_.waits(), waits) << "it waited for one channel alone";
}

TEST_F(LaneWaits, AsLongAsNothingComesItSleeps) {
  const UniqueFd silent(::eventfd(0, EFD_CLOEXEC));
  fabric_.stand_in(silent.get());
  fabric_.hold(kFew);
  const uint64_t begun_ns = client_->clock().now_ns();
  EXPECT_TRUE(fetch());
  // Of one channel each: 10 waits of 10 ms, where looks of 20 us would have taken 200 us.
  EXPECT_GT(client_->clock().now_ns() - begun_ns, 20 * kMillisecond);
  fabric_.stand_in(-1);
}

TEST_F(LaneWaits, AChangeOfTheRuntimeWakesIt) {
  const UniqueFd silent(::eventfd(0, EFD_CLOEXEC));
  fabric_.stand_in(silent.get());
  const uint64_t before = fabric_.arms();
  fabric_.hold(kMany);
  std::atomic<bool> ended = false;
  std::thread other([&, lane = ::gettid()] {
    for (uint64_t seen = before; !ended;) {
      const uint64_t arms = fabric_.arms();
      if (arms == seen || !is_asleep(lane)) continue;
      seen = arms;
      fleet_.client_runtime.notify();
    }
  });
  EXPECT_TRUE(fetch());
  ended = true;
  other.join();
  fabric_.stand_in(-1);
}

// What is to be replaced, and has its new number already.
template <typename T>
class Replacing {
 public:
  explicit Replacing(const Published<T>& published) : lock_(HeldPublication::lock(published)) {
    const_cast<Published<T>&>(published).touch();
  }

 private:
  std::unique_lock<std::mutex> lock_;
};

// The thread that replaces views holds their locks until the lane's fetch has its pages: a lane
// that waited for it would never get there.
TEST_F(LaneWaits, ItWaitsForNoThreadThatReplacesAView) {
  const auto link =
      std::make_shared<FleetLink>(ClientOptions{}, fleet_.client_runtime, fabric_, fleet_.fleet());
  ASSERT_TRUE(link->connect());
  {
    const auto lane = LaneEngine::create(link).value();
    const auto fetch = [&] {
      const std::array<PageRequest, 2> requests = {
          {{keys_[0], 0, engine_.slice(1)}, {keys_[1], 0, engine_.slice(2)}}};
      std::array<PageVerdict, 2> verdicts;
      FetchState* const state = lane->start(requests, verdicts, engine_.deadline(kPatienceNs), {});
      lane->wait_done(state);
      lane->recycle(state);
      return std::ranges::all_of(
          verdicts, [](const PageVerdict& verdict) { return verdict.verdict == Verdict::kReady; });
    };
    while (!fetch()) {  // until both paths are open
    }
    for (int round = 0; round < 20; ++round) {
      std::atomic<bool> is_held = false;
      std::atomic<bool> is_over = false;
      std::thread replacing([&] {
        const auto current = link->links();
        const Replacing<EpochLease> epoch(link->published());
        const Replacing<View> first(current[0]->published());
        const Replacing<View> second(current[1]->published());
        is_held = true;
        while (!is_over) std::this_thread::yield();
      });
      while (!is_held) std::this_thread::yield();
      EXPECT_TRUE(fetch()) << "a view is good until it is replaced";
      is_over = true;
      replacing.join();
      EXPECT_TRUE(fetch());
    }
  }
  link->stop();
}

}  // namespace
}  // namespace farpage
