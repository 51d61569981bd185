// Pushes of a node in a process of its own, by whichever backend push_backend.h gives.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "control/unix_socket.h"
#include "prefetch/registry/registry.h"
#include "tests/support/engine.h"
#include "tests/support/node_process.h"
#include "tests/tier/push/push_backend.h"
#include "tier/ahead/prefetch_lane.h"

namespace farpage {
namespace {

constexpr uint64_t kPageBytes = 4 * kKiB;
constexpr uint32_t kPages = 128;
constexpr uint64_t kPatientNs = 20 * kSecond;

struct PushClient {
  explicit PushClient(const std::string& socket)
      : dialer(make_unix_dialer(runtime, socket).value()) {
    ClientOptions options;
    options.staging_bytes = 4 * kMiB;
    options.connect_ms = 20'000;
    client = Client::connect(options, runtime, *fabric, *dialer).value();
    engine.emplace(*client, kPageBytes, 1);
    lane.emplace(client->open_push_lane({.pages = kPages, .group_pages = 16}).value());
    for (uint64_t number = 0; number < kPages; ++number) {
      requests.push_back({test_key(number), 0, kPageBytes});
    }
  }

  uint64_t now() const { return client->clock().now_ns(); }
  Push start(uint64_t count, uint64_t in_ns) {
    verdicts.assign(count, {});
    deadline_ns = now() + in_ns;
    return lane->push(std::span(requests).first(count), verdicts, deadline_ns);
  }
  size_t ready() const {
    return static_cast<size_t>(
        std::ranges::count(verdicts, Verdict::kReady, &PageVerdict::verdict));
  }
  void expect_ready_pages_right(const Push& push, uint64_t put_number = 1) {
    std::vector<std::byte> whole(kPageBytes);
    for (size_t i = 0; i < verdicts.size(); ++i) {
      if (verdicts[i].verdict != Verdict::kReady) continue;
      fill_page(whole, requests[i].key, put_number);
      ASSERT_TRUE(std::ranges::equal(push.payload(i), whole)) << i;
    }
  }

  AsioRuntime runtime;
  std::unique_ptr<Fabric> fabric = make_push_fabric();
  std::unique_ptr<ControlDialer> dialer;
  std::unique_ptr<Client> client;
  std::optional<Engine> engine;
  std::optional<PushLane> lane;
  std::vector<PushedPage> requests;
  std::vector<PageVerdict> verdicts;
  uint64_t deadline_ns = 0;
};

class PushProcess : public ::testing::Test {
 protected:
  static std::vector<std::string> settings() {
    std::vector<std::string> words = {
        "--pool-bytes",       "4MiB",  "--page-bytes",      std::to_string(kPageBytes), "--set",
        "node.reuse_ms=1000", "--set", "node.lease_ms=3000"};
    for (const std::string& word : push_node_arguments()) words.push_back(word);
    return words;
  }

  void SetUp() override {
    for (uint64_t number = 0; number < kPages; ++number) {
      ASSERT_EQ(client_.engine->put(test_key(number), 1, kPatientNs).code, Code::kOk);
    }
  }
  // A whole push, tried until it comes: a link or a landing may have to be made again.
  bool pushes_at_last(PushClient& client) {
    const uint64_t end = client.now() + kPatientNs;
    while (client.now() < end) {
      Push push = client.start(kPages, 900 * kMillisecond);
      push.wait();
      client.expect_ready_pages_right(push);
      if (client.ready() == kPages) return true;
    }
    return false;
  }

  NodeProcess node_{FARPAGE_PROGRAM, settings()};
  PushClient client_{node_.socket()};
};

TEST_F(PushProcess, EveryPageComesOnceAndIsWhole) {
  for (int round = 0; round < 4; ++round) {
    Push push = client_.start(kPages, kPatientNs);
    push.wait();
    // `read_window` is long for a machine that has nothing else to do, and short for one that does.
    client_.expect_ready_pages_right(push);
    if (client_.ready() == kPages) {
      EXPECT_EQ(push.counter().value().ok, kPages);
    }
  }
  EXPECT_TRUE(pushes_at_last(client_));
  EXPECT_EQ(client_.lane->stats().landings_ended, 0u);
  EXPECT_EQ(client_.lane->stats().quarantined_places, 0u);
}

TEST_F(PushProcess, WhatIsAnnouncedIsPushedInGroupsAndLentToItsDemand) {
  PrefetchOptions options;
  options.landing_pages = kPages;
  options.patience_ns = 900 * kMillisecond;
  options.push_group_pages = 16;
  PrefetchLane lane =
      PrefetchLane::open(
          *client_.client, options,
          prefetch::choose_prefetcher("none")->make(
              {.budget_pages = 1, .layout = {}, .page_bytes = nullptr, .future = nullptr}))
          .value();
  std::vector<PageKey> keys;
  for (uint64_t number = 0; number < kPages; ++number) keys.push_back(test_key(number));
  const uint64_t end = client_.now() + kPatientNs;
  while (lane.report().here < kPages && client_.now() < end) {
    // Again: a page that does not come within `read_window` has failed.
    if (lane.report().waiting + lane.report().under_way == 0) lane.announce(keys);
    lane.progress();
  }
  ASSERT_EQ(lane.report().here, kPages) << lane.status();
  EXPECT_EQ(lane.prefetch_stats().operations, 0u) << "reads";
  EXPECT_LT(lane.prefetch_stats().posts, kPages) << "requests";

  std::vector<std::byte> frames(kPages * kPageBytes);
  const Region region = client_.client->register_memory({frames.data(), frames.size()}).value();
  std::vector<PageRequest> requests;
  for (uint64_t number = 0; number < kPages; ++number) {
    requests.push_back({keys[number], 0, region.slice(number * kPageBytes, kPageBytes)});
  }
  std::vector<PageVerdict> verdicts(kPages);
  DemandFetch demand = lane.fetch(requests, verdicts, client_.now() + kPatientNs);
  demand.wait();
  std::vector<std::byte> whole(kPageBytes);
  for (uint64_t number = 0; number < kPages; ++number) {
    ASSERT_EQ(verdicts[number].verdict, Verdict::kReady) << number;
    EXPECT_NE(verdicts[number].landed, requests[number].destination.data) << number;
    fill_page(whole, keys[number], 1);
    EXPECT_TRUE(std::equal(whole.begin(), whole.end(), verdicts[number].landed)) << number;
  }
}

TEST_F(PushProcess, OneClientThatGoesInAPushDisturbsNoOther) {
  PushClient other(node_.socket());
  ASSERT_TRUE(pushes_at_last(other));
  for (int round = 0; round < 3; ++round) {
    std::optional<PushClient> leaving(std::in_place, node_.socket());
    { Push push = leaving->start(kPages, kPatientNs); }
    leaving.reset();
    EXPECT_TRUE(pushes_at_last(other));
  }
  EXPECT_EQ(other.lane->stats().landings_ended, 0u);
}

// I3, I4.
TEST_F(PushProcess, StoppedNodeCostsAVerdictByTheDeadlineAndItsLandingIsNotWrittenAfterwards) {
  Push first = client_.start(kPages / 2, kPatientNs);
  first.wait();
  const std::vector<PageVerdict> verdicts = client_.verdicts;
  client_.expect_ready_pages_right(first);

  node_.stop();
  Push second = client_.start(kPages / 2, 200 * kMillisecond);
  second.wait();
  EXPECT_GE(client_.now(), client_.deadline_ns);
  EXPECT_EQ(client_.ready(), 0u);
  EXPECT_EQ(client_.lane->stats().quarantined_places, kPages / 2);
  // Nothing is left to land in: the landing ends, and no other can be made now.
  second = client_.start(kPages / 2, 200 * kMillisecond);
  second.wait();
  EXPECT_EQ(client_.ready(), 0u);
  EXPECT_EQ(client_.lane->stats().landings_ended, 1u);

  // Pages asked for before the landing ended are not written when the node goes on; those that the
  // caller still has are as they were.
  node_.go_on();
  second = Push();
  {
    const uint64_t end = client_.now() + kPatientNs;
    bool came = false;
    while (!came && client_.now() < end) {
      Push push = client_.start(kPages / 2, 900 * kMillisecond);
      push.wait();
      client_.expect_ready_pages_right(push);
      came = client_.ready() == kPages / 2;
    }
    EXPECT_TRUE(came);
  }
  client_.verdicts = verdicts;
  client_.expect_ready_pages_right(first);
}

TEST_F(PushProcess, NodeThatIsStoppedInTheMiddleGoesOnAfterwards) {
  Push push = client_.start(kPages, kSecond);
  while (client_.ready() == 0 && !push.done()) client_.lane->progress();
  node_.stop();
  push.wait();
  client_.expect_ready_pages_right(push);
  push = Push();
  node_.go_on();
  EXPECT_TRUE(pushes_at_last(client_));
}

TEST_F(PushProcess, KilledNodeComesBackEmptyAndPushesAgain) {
  Push push = client_.start(kPages, kSecond);
  node_.kill();
  push.wait();
  client_.expect_ready_pages_right(push);
  push = Push();
  node_.start();
  const uint64_t end = client_.now() + kPatientNs;
  Code code = Code::kTimeout;
  while (code != Code::kOk && client_.now() < end) {
    code = client_.engine->put(test_key(0), 2, kSecond).code;
  }
  ASSERT_EQ(code, Code::kOk);
  bool came = false;
  while (!came && client_.now() < end) {
    push = client_.start(2, kSecond);
    push.wait();
    client_.expect_ready_pages_right(push, 2);
    came = client_.ready() == 1 && client_.verdicts[1].reason == Reason::kMiss;
  }
  EXPECT_TRUE(came);
}

}  // namespace
}  // namespace farpage
