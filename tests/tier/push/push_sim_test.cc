#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "replay/page_content.h"
#include "sim/sim_cluster.h"
#include "tests/support/engine.h"
#include "tests/tier/push/cannot_push.h"
#include "tests/tier/spoiling_fabric.h"

namespace farpage {
namespace {

constexpr uint64_t kPageBytes = 512;
constexpr uint64_t kReuseNs = 2 * kMillisecond;  // small_sim_node()

// Pushes in virtual time: to the second client, of what the first has put.
class SimPush : public ::testing::Test {
 protected:
  static SimClusterOptions options() {
    SimClusterOptions options;
    options.clients = 2;
    return options;
  }

  explicit SimPush(const PushOptions& lane = {.pages = 8, .group_pages = 2})
      : lane_(second_->open_push_lane(lane).value()) {}

  uint64_t now() const { return cluster_.now_ns(); }
  void run_for(uint64_t duration_ns) { cluster_.world().run_until(now() + duration_ns); }

  void put(uint64_t first, uint64_t count, uint64_t put_number = 1) {
    for (uint64_t key = first; key < first + count; ++key) {
      ASSERT_EQ(writer_.put(test_key(key), put_number).code, Code::kOk);
    }
  }
  // Keys [first, first + count).
  Push start(uint64_t first, uint64_t count, uint64_t in_ns = 2 * kMillisecond) {
    requests_.clear();
    for (uint64_t key = first; key < first + count; ++key) {
      requests_.push_back({test_key(key), 0, kPageBytes});
    }
    verdicts_.assign(count, {});
    deadline_ns_ = now() + in_ns;
    return lane_.push(requests_, verdicts_, deadline_ns_);
  }
  bool all(Reason reason) const {
    return std::ranges::all_of(verdicts_, [&](const PageVerdict& verdict) {
      return verdict.verdict != Verdict::kPending && verdict.reason == reason;
    });
  }
  static bool holds(std::span<const std::byte> payload, const PageKey& key, uint64_t put_number) {
    std::vector<std::byte> whole(kPageBytes);
    fill_page(whole, key, put_number);
    return std::ranges::equal(payload, whole);
  }
  void expect_all_ready(const Push& push, uint64_t put_number = 1) {
    EXPECT_TRUE(all(Reason::kNone));
    for (size_t i = 0; i < requests_.size(); ++i) {
      ASSERT_EQ(verdicts_[i].verdict, Verdict::kReady) << i;
      EXPECT_TRUE(holds(push.payload(i), requests_[i].key, put_number)) << i;
    }
  }
  void lose_what_the_node_sends(double loss) {
    sim::SimOptions network;
    network.loss = loss;
    network.late_max_ns = 20 * kMillisecond;
    cluster_.node_fabric().set_options(network);
  }

  SimCluster cluster_{1, options()};
  std::unique_ptr<Client> first_ = cluster_.connect(0).value();
  std::unique_ptr<Client> second_ = cluster_.connect(1).value();
  Engine writer_{*first_, kPageBytes, 1};
  PushLane lane_;
  std::vector<PushedPage> requests_;
  std::vector<PageVerdict> verdicts_;
  uint64_t deadline_ns_ = 0;
};

TEST_F(SimPush, OneRequestBringsManyPages) {
  put(0, 7);
  Push push = start(0, 7);
  push.wait();
  expect_all_ready(push);
  EXPECT_LT(now(), deadline_ns_);
  EXPECT_EQ(push.counter().value().ok, 7u);
  EXPECT_EQ(lane_.stats().requests, 1u);
  EXPECT_EQ(lane_.stats().free_places, 1u);
  push = Push();
  EXPECT_EQ(lane_.stats().free_places, 8u);
  EXPECT_EQ(lane_.stats().quarantined_places, 0u);
}

TEST_F(SimPush, PlaceThatIsTakenOutlivesItsPush) {
  put(0, 2);
  Push push = start(0, 2);
  push.wait();
  expect_all_ready(push);
  {
    const PageLease place = push.take(1);
    push = Push();
    EXPECT_EQ(lane_.stats().free_places, 7u);
    Push other = start(0, 2);
    other.wait();
    expect_all_ready(other);
    EXPECT_TRUE(holds({place.slice().data + sizeof(PageHeader), kPageBytes}, test_key(1), 1));
  }
  EXPECT_EQ(lane_.stats().free_places, 8u);
}

// Keys 0 and 3 are there: a group whose last page is missing, and one whose first is, and one of
// which nothing is there, each have their immediate.
TEST_F(SimPush, MissesAreToldAndLoseNoImmediate) {
  put(0, 1);
  put(3, 1);
  Push push = start(0, 6);
  push.wait();
  for (size_t i = 0; i < 6; ++i) {
    const bool there = i == 0 || i == 3;
    EXPECT_EQ(verdicts_[i].verdict, there ? Verdict::kReady : Verdict::kRecompute) << i;
    EXPECT_EQ(verdicts_[i].reason, there ? Reason::kNone : Reason::kMiss) << i;
  }
  EXPECT_LT(now(), deadline_ns_);
  push = Push();
  run_for(kMillisecond);
  start(6, 1).wait();
  EXPECT_EQ(lane_.stats().quarantined_places, 0u) << "a group's immediate has not come";
  EXPECT_EQ(lane_.stats().landings_ended, 0u);
}

TEST_F(SimPush, PagesAreReadyBeforeTheNodeHasAnswered) {
  put(0, 4);
  cluster_.node_fabric().set_options({.delay_min_ns = 1, .delay_max_ns = 2});
  cluster_.set_control_delay(900 * kMicrosecond, 900 * kMicrosecond);
  const uint64_t began = now();
  Push push = start(0, 4);
  push.wait();
  expect_all_ready(push);
  EXPECT_LT(now() - began, 1'800 * kMicrosecond) << "the answer takes twice 900 µs";
}

TEST_F(SimPush, VerdictComesAtTheDeadlineToTheNanosecond) {
  put(0, 8);
  cluster_.node_fabric().pause();
  Push push = start(0, 8, 1'234'567);
  push.wait();
  EXPECT_EQ(now(), deadline_ns_);
  EXPECT_TRUE(all(Reason::kStalled));
  EXPECT_EQ(lane_.stats().quarantined_places, 8u);
}

// A page that completes `read_window` after the request may have been written over at the node.
TEST_F(SimPush, NothingIsUsedThatTookLongerThanL) {
  put(0, 2);
  cluster_.node_fabric().set_options({.delay_min_ns = kReuseNs, .delay_max_ns = kReuseNs});
  const uint64_t began = now();
  Push push = start(0, 2, 15 * kMillisecond);
  push.wait();
  EXPECT_TRUE(all(Reason::kStalled));
  EXPECT_EQ(now(), began + kReuseNs);
}

// No lane looked while it came: to find it there later says nothing of its time.
TEST_F(SimPush, NothingIsUsedThatIsFirstSeenAfterL) {
  put(0, 2);
  Push push = start(0, 2, 15 * kMillisecond);
  run_for(kReuseNs);
  push.wait();
  EXPECT_TRUE(all(Reason::kStalled));
  EXPECT_EQ(lane_.stats().quarantined_places, 0u) << "its immediates are there";
}

TEST_F(SimPush, NothingIsUsedThatIsFirstSeenAtTheDeadline) {
  put(0, 2);
  Push push = start(0, 2, kMillisecond);
  run_for(kMillisecond);
  push.wait();
  EXPECT_TRUE(all(Reason::kStalled));
}

TEST_F(SimPush, LatePlacesAreInQuarantineUntilTheirImmediateComes) {
  put(0, 4);
  cluster_.node_fabric().set_options(
      {.delay_min_ns = 800 * kMicrosecond, .delay_max_ns = 900 * kMicrosecond});
  start(0, 4, 500 * kMicrosecond).wait();
  EXPECT_TRUE(all(Reason::kStalled));
  EXPECT_EQ(lane_.stats().quarantined_places, 4u);
  cluster_.node_fabric().set_options({});
  run_for(10 * kMillisecond);
  put(4, 4);
  Push push = start(4, 4);
  push.wait();
  expect_all_ready(push);
  EXPECT_EQ(lane_.stats().quarantined_places, 0u);
  EXPECT_EQ(lane_.stats().landings_ended, 0u) << "the same landing, now that it is free again";
}

// No late write reaches a place that has been given out again.
TEST_F(SimPush, StarvedByQuarantineTheLandingIsGivenUpAndMadeAgain) {
  put(0, 8);
  // In delays of up to 30 ms, what a push of before sends comes while the one of after lands.
  cluster_.node_fabric().set_options(
      {.delay_min_ns = 5 * kMillisecond, .delay_max_ns = 10 * kMillisecond});
  start(0, 8, 500 * kMicrosecond).wait();
  EXPECT_EQ(lane_.stats().quarantined_places, 8u);
  cluster_.node_fabric().set_options({});
  Push push = start(0, 8, 10 * kMillisecond);
  push.wait();
  expect_all_ready(push);
  EXPECT_EQ(lane_.stats().landings_ended, 1u);
  run_for(50 * kMillisecond);
  expect_all_ready(push);
}

TEST_F(SimPush, LossEndsInVerdictsAndTheLaneGoesOn) {
  put(0, 8);
  lose_what_the_node_sends(0.5);
  for (int i = 0; i < 50; ++i) {
    Push push = start(0, 8, 5 * kMillisecond);
    push.wait();
    EXPECT_LE(now(), deadline_ns_);
    for (size_t at = 0; at < 8; ++at) {
      if (verdicts_[at].verdict == Verdict::kReady) {
        EXPECT_TRUE(holds(push.payload(at), test_key(at), 1));
      }
    }
  }
  lose_what_the_node_sends(0);
  Push push = start(0, 8, 20 * kMillisecond);
  push.wait();
  expect_all_ready(push);
}

TEST_F(SimPush, LongerAndOlderPagesThanWereAskedForAreNotReady) {
  put(0, 2);
  Push push = start(0, 1);
  push.wait();
  const Version first = verdicts_[0].version;
  requests_ = {
      {test_key(0), first + 100, 0}, {test_key(1), 0, kPageBytes / 2}, {test_key(0), first, 0}};
  verdicts_.assign(3, {});
  push = lane_.push(requests_, verdicts_, now() + kReuseNs);
  push.wait();
  EXPECT_EQ(verdicts_[0].reason, Reason::kStale);
  EXPECT_EQ(verdicts_[1].reason, Reason::kMiss);
  EXPECT_EQ(verdicts_[2].verdict, Verdict::kReady);
  EXPECT_EQ(push.payload(2).size(), kPageBytes);
}

// The slot is superseded after its write was posted, before the device takes it.
TEST_F(SimPush, PageThatIsReplacedDuringThePushIsNotReadyAsItWas) {
  put(0, 1);
  cluster_.node_fabric().set_options(
      {.delay_min_ns = 450 * kMicrosecond, .delay_max_ns = 450 * kMicrosecond});
  cluster_.set_control_delay(1, 1);
  Push push = start(0, 1, 20 * kMillisecond);
  run_for(1'000);  // the request is there, and its write posted
  ASSERT_EQ(writer_.put(test_key(0), 2).code, Code::kOk);
  push.wait();
  EXPECT_TRUE(all(Reason::kStale));
}

// The node's counts of its pushes are the client's.
TEST_F(SimPush, TheNodeCountsWhatTheClientSees) {
  put(0, 6);
  for (int i = 0; i < 3; ++i) start(0, 8).wait();
  const PushStats seen = lane_.stats();
  ASSERT_EQ(seen.pages_ready, 18u);
  ASSERT_EQ(seen.pages_recompute, 6u);
  run_for(kMillisecond);  // it looks at the end of its writes now and then
  const PushCounts counts = cluster_.node_service().status().pushes;
  EXPECT_EQ(counts.lanes, 1u);
  EXPECT_EQ(counts.pages, 18u);
  EXPECT_EQ(counts.bytes, 18 * kPageBytes);
  EXPECT_EQ(counts.missed, 6u);
  EXPECT_EQ(counts.late, 0u);
  EXPECT_EQ(counts.refused, 0u);
}

TEST_F(SimPush, RemovedPageIsAMiss) {
  put(0, 2);
  const PageKey key = test_key(0);
  ASSERT_TRUE(first_->remove({&key, 1}, writer_.deadline()).wait());
  start(0, 2).wait();
  EXPECT_EQ(verdicts_[0].reason, Reason::kMiss);
  EXPECT_EQ(verdicts_[1].reason, Reason::kNone);
}

TEST_F(SimPush, NodeThatIsStartedAgainInTheMiddle) {
  put(0, 4);
  cluster_.node_fabric().set_options(
      {.delay_min_ns = 800 * kMicrosecond, .delay_max_ns = 900 * kMicrosecond});
  Push push = start(0, 4, 15 * kMillisecond);
  run_for(300 * kMicrosecond);
  cluster_.end_node(NodeEnd::kStopped);
  cluster_.start_node();
  push.wait();
  for (const PageVerdict& verdict : verdicts_) EXPECT_EQ(verdict.verdict, Verdict::kRecompute);
  EXPECT_LE(now(), deadline_ns_);
  run_for(100 * kMillisecond);
  put(0, 4, 2);
  push = start(0, 4, 100 * kMillisecond);
  push.wait();
  expect_all_ready(push, 2);
}

TEST_F(SimPush, LostLinkAsksAgainInsideTheDeadline) {
  put(0, 4);
  cluster_.silence_links();
  Push push = start(0, 4, 100 * kMillisecond);
  push.wait();
  EXPECT_TRUE(all(Reason::kStalled)) << "L has passed, and the lease still lasts";
  cluster_.cut_links();
  push = start(0, 4, 100 * kMillisecond);
  push.wait();
  EXPECT_LE(now(), deadline_ns_);
}

TEST_F(SimPush, WithoutAViewItSaysSoAtOnce) {
  put(0, 1);
  cluster_.let_dial(1, false);
  cluster_.cut_links();
  run_for(100 * kMillisecond);
  const uint64_t began = now();
  start(0, 1, 10 * kMillisecond).wait();
  EXPECT_TRUE(all(Reason::kUnreachable));
  EXPECT_EQ(now(), began);
}

TEST_F(SimPush, ManyPushesShareTheLane) {
  put(0, 8);
  struct Running {
    std::vector<PushedPage> requests;
    std::vector<PageVerdict> verdicts;
    Push push;
  };
  std::vector<Running> running(20);
  for (size_t i = 0; i < running.size(); ++i) {
    running[i].requests = {{test_key(i % 8), 0, 0}, {test_key((i + 3) % 8), 0, 0}};
    running[i].verdicts.resize(2);
    running[i].push = lane_.push(running[i].requests, running[i].verdicts, now() + kSecond);
  }
  for (Running& one : running) {
    one.push.wait();
    for (size_t i = 0; i < 2; ++i) {
      ASSERT_EQ(one.verdicts[i].verdict, Verdict::kReady);
      EXPECT_TRUE(holds(one.push.payload(i), one.requests[i].key, 1));
    }
    one.push = Push();
  }
  EXPECT_EQ(lane_.stats().free_places, 8u);
}

TEST_F(SimPush, PushThatIsDroppedLeavesItsPlacesInQuarantine) {
  put(0, 4);
  { Push push = start(0, 4); }
  EXPECT_TRUE(all(Reason::kStalled));
  EXPECT_EQ(lane_.stats().quarantined_places, 4u);
  run_for(kMillisecond);
  start(0, 1).wait();
  EXPECT_EQ(lane_.stats().quarantined_places, 0u);
}

TEST_F(SimPush, WhatLandsIsCheckedToTheLastByte) {
  put(0, 1);
  SpoilingFabric fabric(cluster_.client_fabric(1));
  const auto client = cluster_.connect(1, {}, &fabric).value();
  PushLane lane = client->open_push_lane({.pages = 1, .group_pages = 1}).value();
  const auto verdict_if = [&](std::function<void(std::byte*)> spoil) {
    fabric.spoil = std::move(spoil);
    const PushedPage request = {test_key(0), 0, 0};
    PageVerdict verdict;
    Push push = lane.push({&request, 1}, {&verdict, 1}, now() + kReuseNs);
    push.wait();
    return verdict.reason;
  };
  const auto flip = [](size_t at) { return [at](std::byte* place) { place[at] ^= std::byte{1}; }; };
  EXPECT_EQ(verdict_if(nullptr), Reason::kNone);
  EXPECT_EQ(verdict_if(flip(sizeof(PageHeader))), Reason::kCorrupt);
  EXPECT_EQ(verdict_if(flip(sizeof(PageHeader) + kPageBytes - 1)), Reason::kCorrupt);
  EXPECT_EQ(verdict_if(flip(offsetof(PageHeader, version))), Reason::kCorrupt);
  EXPECT_EQ(verdict_if(flip(offsetof(PageHeader, incarnation))), Reason::kCorrupt);
  EXPECT_EQ(verdict_if(flip(offsetof(PageHeader, live))), Reason::kStale);
  EXPECT_EQ(verdict_if([](std::byte* place) {  // whole, and longer than a place
              auto& header = *reinterpret_cast<PageHeader*>(place);
              header.payload_bytes = UINT32_MAX;
              header.header_crc = header_crc(header);
            }),
            Reason::kCorrupt);
  EXPECT_EQ(verdict_if([](std::byte* place) {  // another page, whole and live
              auto& header = *reinterpret_cast<PageHeader*>(place);
              header.key = test_key(1);
              header.header_crc = header_crc(header);
              header.live = live_token(header.key, header.version, header.incarnation);
            }),
            Reason::kStale);
  EXPECT_EQ(verdict_if(nullptr), Reason::kNone);
}

TEST_F(SimPush, ImmediatesThatComeTwiceLeaveEveryPageItsOwn) {
  put(0, 8);
  SpoilingFabric fabric(cluster_.client_fabric(1));
  fabric.twice = true;
  const auto client = cluster_.connect(1, {}, &fabric).value();
  PushLane lane = client->open_push_lane({.pages = 8, .group_pages = 2}).value();
  cluster_.node_fabric().set_options({.delay_min_ns = 1, .delay_max_ns = 100 * kMicrosecond});
  cluster_.set_control_delay(1, 1);
  for (uint64_t key = 0; key < 8; ++key) requests_.push_back({test_key(key), 0, kPageBytes});
  for (int round = 0; round < 10; ++round) {
    verdicts_.assign(8, {});
    Push push = lane.push(requests_, verdicts_, now() + kReuseNs);
    push.wait();
    expect_all_ready(push);
  }
  // Of half of a push that is given up, the other half is still on its way.
  Push push = lane.push(requests_, verdicts_, now() + kReuseNs);
  while (verdicts_[0].verdict == Verdict::kPending) {
    run_for(kMicrosecond);
    lane.progress();
  }
  ASSERT_EQ(verdicts_[7].verdict, Verdict::kPending);
  push = Push();
  const uint64_t quarantined = lane.stats().quarantined_places;
  EXPECT_GE(quarantined, 2u);
  push = lane.push(std::span(requests_).first(1), std::span(verdicts_).first(1), now() + kReuseNs);
  EXPECT_EQ(lane.stats().quarantined_places, quarantined) << "none was given out";
}

// A place that has held a page shows nothing of it to the next push (rule 18): of a version that is
// superseded and gone, its immediate comes long before the node's answer does.
TEST_F(SimPush, APlaceShowsNothingOfThePageThatWasThere) {
  put(0, 1);
  PushLane lane = second_->open_push_lane({.pages = 1, .group_pages = 1}).value();
  const PushedPage request = {test_key(0), 0, 0};
  PageVerdict verdict;
  Push push = lane.push({&request, 1}, {&verdict, 1}, now() + kReuseNs);
  push.wait();
  ASSERT_EQ(verdict.verdict, Verdict::kReady);
  push = Push();
  put(0, 1, 2);
  const PageKey key = test_key(0);
  ASSERT_TRUE(first_->remove({&key, 1}, writer_.deadline()).wait());
  cluster_.node_fabric().set_options({.delay_min_ns = 1, .delay_max_ns = 2});
  cluster_.set_control_delay(900 * kMicrosecond, 900 * kMicrosecond);
  const uint64_t began = now();
  push = lane.push({&request, 1}, {&verdict, 1}, began + kReuseNs);
  run_for(kMillisecond);
  lane.progress();
  EXPECT_EQ(verdict.verdict, Verdict::kPending) << "the immediate has come, and the answer not";
  push.wait();
  EXPECT_EQ(verdict.reason, Reason::kMiss);
  EXPECT_GE(now() - began, 1'800 * kMicrosecond);
}

TEST_F(SimPush, BackendThatCannotPushSaysWhatToDo) {
  CannotPush fabric(cluster_.client_fabric(1));
  auto client = cluster_.connect(1, {}, &fabric).value();
  const auto lane = client->open_push_lane({});
  ASSERT_FALSE(lane);
  EXPECT_EQ(lane.error().code, Code::kInvalid);
  EXPECT_NE(lane.error().message.find("fetch them instead"), std::string::npos);
}

TEST_F(SimPush, LaneOfTooManyGroupsIsRefused) {
  EXPECT_FALSE(second_->open_push_lane({.pages = 0}));
  EXPECT_FALSE(second_->open_push_lane({.pages = 8, .group_pages = 0}));
  EXPECT_FALSE(second_->open_push_lane({.pages = kMaxPushPages, .group_pages = 1}));
  EXPECT_FALSE(second_->open_push_lane({.pages = kMaxPushPages + 1, .group_pages = 64}));
  EXPECT_TRUE(second_->open_push_lane({.pages = kMaxPushPages, .group_pages = 4}));
}

}  // namespace
}  // namespace farpage
