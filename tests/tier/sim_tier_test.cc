#include <gtest/gtest.h>

#include "sim/fault/fault_fabric.h"
#include "sim/sim_cluster.h"
#include "tests/support/engine.h"

namespace farpage {
namespace {

using fault::FaultKind;

constexpr uint64_t kPageBytes = 512;

// The guards, one by one, in virtual time.
class SimTier : public ::testing::Test {
 protected:
  static SimClusterOptions options() {
    SimClusterOptions options;
    options.clients = 2;
    return options;
  }

  explicit SimTier(const SimClusterOptions& options = SimTier::options()) : cluster_(1, options) {}

  uint64_t now() const { return cluster_.now_ns(); }
  // The next so many operations that it can be made of.
  void inject(FaultKind kind, uint64_t count) {
    fault::FaultPlan plan;
    plan.of(kind) = 1;
    plan.most = count;
    faulty_.set_plan(plan);
  }
  bool wait(uint64_t in_ns, const std::function<bool()>& ready) {
    return cluster_.world().wait_until(now() + in_ns, ready);
  }

  SimCluster cluster_;
  fault::FaultFabric faulty_{cluster_.client_fabric(0), cluster_.world().clock(), 1};
  std::unique_ptr<Client> first_ = cluster_.connect(0, {}, &faulty_).value();
  std::unique_ptr<Client> second_ = cluster_.connect(1).value();
  Engine writer_{*first_, kPageBytes, 8};
  Engine reader_{*second_, kPageBytes, 8};
  const PageKey key_ = test_key(1);
};

// A client that has not noticed the restart, while what is mapped of the old run is still there.
class OldView : public SimTier {
 protected:
  // Longer than it takes the other client to dial again, even if half of it has gone.
  static SimClusterOptions longer_lease() {
    SimClusterOptions options = SimTier::options();
    options.node.lease_ms = 100;
    return options;
  }
  OldView() : SimTier(longer_lease()) {}

  void SetUp() override {
    ASSERT_EQ(writer_.put(key_, 1).code, Code::kOk);
    ASSERT_EQ(reader_.fetch(key_).verdict, Verdict::kReady);
    cluster_.let_dial(1, false);
    cluster_.end_node(NodeEnd::kKilled);
    cluster_.start_node();
    ASSERT_TRUE(wait(kSecond, [this] {
      return first_->reachable() && second_->reachable() && epoch_changed();
    }));
  }

  bool epoch_changed() { return writer_.fetch(key_, 0, kMillisecond).reason == Reason::kMiss; }
};

TEST_F(OldView, ReadsOnWhileItsLeaseLasts) {
  EXPECT_EQ(reader_.fetch(key_).verdict, Verdict::kReady);
}

TEST_F(OldView, ShowsNothingOlderOnceAPutIsAcknowledged) {
  ASSERT_EQ(writer_.put(key_, 2).code, Code::kOk);
  EXPECT_EQ(reader_.fetch(key_).reason, Reason::kUnreachable);
}

TEST_F(OldView, ShowsNothingOnceARemoveIsAcknowledged) {
  ASSERT_TRUE(first_->remove({&key_, 1}, writer_.deadline()).wait());
  EXPECT_EQ(reader_.fetch(key_).reason, Reason::kUnreachable);
}

TEST_F(SimTier, PausedNodeIsReadUntilTheLeaseEndsAndAgainAfterwards) {
  ASSERT_EQ(writer_.put(key_, 1).code, Code::kOk);
  ASSERT_EQ(reader_.fetch(test_key(2)).reason, Reason::kMiss);  // the lane is open
  const uint64_t messages = cluster_.control_messages();
  cluster_.node_fabric().pause();
  EXPECT_EQ(reader_.fetch(key_).verdict, Verdict::kReady);  // cold
  EXPECT_EQ(reader_.fetch(key_).verdict, Verdict::kReady);  // warm
  EXPECT_EQ(cluster_.control_messages(), messages);
  cluster_.world().run_until(now() + small_sim_node().lease_ms * kMillisecond);
  EXPECT_EQ(reader_.fetch(key_).reason, Reason::kUnreachable);
  cluster_.node_fabric().resume();
  ASSERT_TRUE(wait(kSecond, [this] { return second_->reachable(); }));
  EXPECT_EQ(reader_.fetch(key_).verdict, Verdict::kReady);
}

// The connection is there, as far as the client's kernel knows, and nothing comes.
TEST_F(SimTier, SilentLinkIsGivenUpWhenItsLeaseEnds) {
  ASSERT_EQ(writer_.put(key_, 1).code, Code::kOk);
  ASSERT_EQ(reader_.fetch(key_).verdict, Verdict::kReady);
  cluster_.silence_links();
  EXPECT_EQ(reader_.fetch(key_).verdict, Verdict::kReady);  // while the lease lasts
  cluster_.world().run_until(now() + small_sim_node().lease_ms * kMillisecond);
  EXPECT_EQ(reader_.fetch(key_, 0, 0).reason, Reason::kUnreachable);
  ASSERT_TRUE(wait(20 * kMillisecond, [this] {
    return first_->reachable() && second_->reachable();
  })) << "no longer than a dial takes";
  EXPECT_EQ(writer_.put(key_, 2).code, Code::kOk);
  EXPECT_EQ(reader_.fetch(key_).verdict, Verdict::kReady);
  EXPECT_EQ(reader_.put_number_of(key_), 2u);
}

TEST_F(SimTier, LaneThatWasBeingOpenedOverASilentLinkMovesOn) {
  ASSERT_EQ(writer_.put(key_, 1).code, Code::kOk);
  ASSERT_EQ(reader_.fetch(key_).verdict, Verdict::kReady);
  const uint64_t reuse_ns = small_sim_node().reuse_ms * kMillisecond;
  cluster_.silence_links();
  cluster_.set_network({.delay_min_ns = 2 * reuse_ns, .delay_max_ns = 2 * reuse_ns});
  ASSERT_EQ(reader_.fetch(key_, 0, 6 * reuse_ns).reason, Reason::kStalled);
  cluster_.set_network({});
  ASSERT_GT(reader_.lane().stats().channels_ended, 0u);  // and another one is asked for
  cluster_.world().run_until(now() + small_sim_node().lease_ms * kMillisecond);
  ASSERT_TRUE(wait(20 * kMillisecond, [this] { return second_->reachable(); }));
  EXPECT_EQ(reader_.fetch(key_, 0, 10 * kMillisecond).verdict, Verdict::kReady);
}

// Its answer will never come, however long the caller could wait.
TEST_F(SimTier, PutOverASilentLinkEndsWithTheLease) {
  ASSERT_EQ(writer_.put(key_, 1).code, Code::kOk);
  cluster_.silence_links();
  const uint64_t lease_end = now() + small_sim_node().lease_ms * kMillisecond;
  fill_page(writer_.frame(0), key_, 2);
  const PutRequest put = {key_, writer_.slice(0)};
  EXPECT_EQ(first_->put({&put, 1}, now() + 60 * kSecond).wait()[0].code, Code::kTimeout);
  EXPECT_LE(now(), lease_end + kMillisecond);
}

// At any moment of a dial: before the hello is answered, and after it.
TEST_F(SimTier, LinkThatFallsSilentWhileItIsMadeIsGivenUpToo) {
  constexpr uint64_t kConnectNs = 2 * kSecond;  // client.connect_ms
  for (uint64_t turn = 0; turn < 60; ++turn) {
    cluster_.cut_links();
    cluster_.world().run_until(now() + 10 * kMillisecond + turn * 15 * kMicrosecond);
    cluster_.silence_links();
    cluster_.world().run_until(now() + kConnectNs + 100 * kMillisecond);
    ASSERT_TRUE(first_->reachable()) << turn;
    ASSERT_EQ(writer_.put(key_, turn + 1).code, Code::kOk) << turn;
  }
}

// To connect to the staging takes longer than the lease lasts.
class SlowConnect : public SimTier {
 protected:
  static constexpr uint64_t kSlowNs = 50 * kMillisecond;
  SlowConnect() {
    for (size_t client = 0; client < 2; ++client) {
      cluster_.client_fabric(client).set_options(
          {.offload_min_ns = kSlowNs, .offload_max_ns = kSlowNs});
    }
  }
};

TEST_F(SlowConnect, LeaseIsRenewedMeanwhile) {
  ASSERT_EQ(writer_.put(key_, 1).code, Code::kOk);
  cluster_.cut_links();
  cluster_.world().run_until(now() + kSlowNs / 2);
  EXPECT_FALSE(first_->reachable());
  ASSERT_TRUE(wait(2 * kSlowNs, [this] { return first_->reachable(); }));
  EXPECT_EQ(writer_.put(key_, 2).code, Code::kOk);
  EXPECT_EQ(writer_.fetch(key_).verdict, Verdict::kReady);
}

TEST_F(SlowConnect, LinkThatFallsSilentMeanwhileIsGivenUp) {
  ASSERT_EQ(writer_.put(key_, 1).code, Code::kOk);
  cluster_.cut_links();
  cluster_.world().run_until(now() + kSlowNs / 2);
  cluster_.silence_links();
  ASSERT_TRUE(wait(4 * kSlowNs, [this] { return first_->reachable(); }));
  EXPECT_EQ(writer_.put(key_, 2).code, Code::kOk);
}

TEST_F(SlowConnect, ClientAndLaneMayGoMeanwhile) {
  auto third = cluster_.connect(0).value();
  {
    Engine engine(*third, kPageBytes, 8);
    EXPECT_EQ(engine.fetch(key_, 0, kMillisecond).verdict, Verdict::kRecompute);  // it opens
  }
  cluster_.cut_links();
  cluster_.world().run_until(now() + kSlowNs / 2);
  third.reset();
  cluster_.world().run_until(now() + 4 * kSlowNs);
  EXPECT_TRUE(first_->reachable());
}

// The node opens a lane that nobody waits for any more.
class FewLanes : public SimTier {
 protected:
  static constexpr uint64_t kMostLanes = 3;
  static SimClusterOptions few_lanes() {
    SimClusterOptions options = SimTier::options();
    options.node.max_lanes = kMostLanes;
    return options;
  }
  FewLanes() : SimTier(few_lanes()) {}
};

TEST_F(FewLanes, LanesGivenUpWhileTheyAreOpenedAreNotUsedUp) {
  ClientOptions hasty;
  hasty.connect_ms = 5;
  const auto client = cluster_.connect(0, hasty).value();
  constexpr uint64_t kSlowNs = 2 * 5 * kMillisecond;
  cluster_.client_fabric(0).set_options({.offload_min_ns = kSlowNs, .offload_max_ns = kSlowNs});
  for (uint64_t i = 0; i < 2 * kMostLanes; ++i) {
    ASSERT_EQ(client->open_lane().error().code, Code::kTimeout);
    cluster_.world().run_until(now() + 2 * kSlowNs);
  }
  cluster_.client_fabric(0).set_options({});
  const auto lane = client->open_lane();
  EXPECT_TRUE(lane.has_value()) << lane.error().message;
}

TEST_F(SimTier, NodeWithoutPowerStallsUntilTheDeadlineAndNotLonger) {
  ASSERT_EQ(writer_.put(key_, 1).code, Code::kOk);
  ASSERT_EQ(reader_.fetch(key_).verdict, Verdict::kReady);
  cluster_.end_node(NodeEnd::kPowerLost);
  const uint64_t deadline = reader_.deadline(5 * kMillisecond);
  EXPECT_EQ(reader_.fetch(key_, 0, 5 * kMillisecond).reason, Reason::kStalled);
  EXPECT_GE(now(), deadline);
}

// `read_window`: a page that took longer may be of a slot that has been written again meanwhile.
TEST_F(SimTier, ReadThatTookLongerThanReuseTimeIsNotUsed) {
  ASSERT_EQ(writer_.put(key_, 1).code, Code::kOk);
  ASSERT_EQ(reader_.fetch(key_).verdict, Verdict::kReady);
  const uint64_t reuse_ns = small_sim_node().reuse_ms * kMillisecond;
  cluster_.set_network({.delay_min_ns = reuse_ns, .delay_max_ns = reuse_ns});
  EXPECT_EQ(reader_.fetch(key_, 0, 15 * kMillisecond).reason, Reason::kStalled);
  EXPECT_GT(reader_.lane().stats().channels_ended, 0u);
}

// The same, of a thread that did not run meanwhile: the completion has come when it looks again.
TEST_F(SimTier, CompletionFoundAfterReuseTimeIsNotUsed) {
  ASSERT_EQ(writer_.put(key_, 1).code, Code::kOk);
  ASSERT_EQ(reader_.fetch(key_).verdict, Verdict::kReady);
  const uint64_t before = reader_.lane().stats().operations;
  const PageRequest request = {key_, 0, reader_.slice(0)};
  PageVerdict verdict;
  Fetch fetch = reader_.lane().fetch({&request, 1}, {&verdict, 1}, reader_.deadline());
  cluster_.world().run_until(now() + small_sim_node().reuse_ms * kMillisecond);
  fetch.wait();
  EXPECT_EQ(verdict.verdict, Verdict::kReady);
  EXPECT_EQ(reader_.lane().stats().operations - before, 2u);
}

class TwoSlots : public SimTier {
 protected:
  static SimClusterOptions two_slots() {
    SimClusterOptions options = SimTier::options();
    options.node.pool_bytes = 2 * (kPageBytes + sizeof(PageHeader));
    return options;
  }
  TwoSlots() : SimTier(two_slots()) {}
};

// Protocol rule 3, the node's half: a reader may still be on its way to the slot.
TEST_F(TwoSlots, SlotIsWrittenAgainOnlyAfterTheReuseTime) {
  ASSERT_EQ(writer_.put(key_, 1).code, Code::kOk);
  const uint64_t before = now();
  ASSERT_EQ(writer_.put(key_, 2).code, Code::kOk);
  ASSERT_EQ(writer_.put(key_, 3).code, Code::kOk);
  EXPECT_GE(now() - before, small_sim_node().reuse_ms * kMillisecond);
}

// Protocol rule 18: what stood in the landing header before is a page of its own, and a good one.
TEST_F(SimTier, ReadThatLandsNothingShowsNothing) {
  ASSERT_EQ(writer_.put(key_, 1).code, Code::kOk);
  ASSERT_EQ(writer_.fetch(key_).verdict, Verdict::kReady);
  std::vector<std::byte> page(kPageBytes);
  fill_page(page, key_, 1);
  const PageRequest request = {key_, 0, writer_.slice(0)};
  inject(FaultKind::kNothing, 1);
  PageVerdict verdict;
  std::ranges::fill(writer_.frame(0), std::byte{0xEE});
  writer_.lane().fetch({&request, 1}, {&verdict, 1}, writer_.deadline()).wait();
  EXPECT_EQ(faulty_.injected().of(FaultKind::kNothing), 1u);
  EXPECT_EQ(verdict.verdict, Verdict::kReady);
  EXPECT_TRUE(std::ranges::equal(writer_.frame(0), page));

  // The old page is still whole in the destination, and no longer the newest.
  const PutResult newer = [&] {
    fill_page(reader_.frame(1), key_, 2);
    const PutRequest put = {key_, reader_.slice(1)};
    return second_->put({&put, 1}, reader_.deadline()).wait()[0];
  }();
  ASSERT_EQ(newer.code, Code::kOk);
  inject(FaultKind::kNothing, 1);
  writer_.lane().fetch({&request, 1}, {&verdict, 1}, writer_.deadline()).wait();
  EXPECT_EQ(faulty_.injected().of(FaultKind::kNothing), 2u);
  ASSERT_EQ(verdict.verdict, Verdict::kReady);
  EXPECT_EQ(verdict.version, newer.version);
  EXPECT_EQ(page_put_number(writer_.frame(0)), 2u);
}

TEST_F(SimTier, FlippedByteIsLookedAtAgainAndTwiceIsCorrupt) {
  ASSERT_EQ(writer_.put(key_, 1).code, Code::kOk);
  inject(FaultKind::kFlippedPayload, 1);
  EXPECT_EQ(writer_.fetch(key_).verdict, Verdict::kReady);
  EXPECT_EQ(writer_.put_number_of(key_), 1u);
  EXPECT_EQ(faulty_.injected().of(FaultKind::kFlippedPayload), 1u);
  inject(FaultKind::kFlippedPayload, 3);  // the cached location's, and two of the index's
  EXPECT_EQ(writer_.fetch(key_).reason, Reason::kCorrupt);
  EXPECT_EQ(faulty_.injected().of(FaultKind::kFlippedPayload), 4u);
}

// Touches for the node are still on their way when the path has to be given up.
TEST_F(SimTier, TouchesOnTheirWayDelayNoVerdict) {
  ASSERT_EQ(writer_.put(key_, 1).code, Code::kOk);
  for (int i = 0; i < 255; ++i) ASSERT_EQ(reader_.fetch(key_).verdict, Verdict::kReady);
  constexpr uint64_t kDelay = 300 * kMicrosecond;
  cluster_.set_network({.delay_min_ns = kDelay, .delay_max_ns = kDelay});
  ASSERT_EQ(reader_.fetch(key_).verdict, Verdict::kReady);  // the block is full now
  const PageRequest request = {key_, 0, reader_.slice(0)};
  const PageRequest other = {key_, 0, reader_.slice(1)};
  PageVerdict verdicts[2];
  const uint64_t start = now();
  Fetch first = reader_.lane().fetch({&request, 1}, {&verdicts[0], 1}, start + 100'000);
  Fetch last = reader_.lane().fetch({&other, 1}, {&verdicts[1], 1}, start + 110'000);
  first.wait();
  EXPECT_EQ(verdicts[0].place, Place::kHeld);
  last.wait();
  EXPECT_EQ(now(), start + 110'000);
  EXPECT_TRUE(first.wait_released(kNever));
  EXPECT_TRUE(last.wait_released(kNever));
  EXPECT_EQ(verdicts[0].place, Place::kReleased);
  EXPECT_EQ(reader_.lane().stats().late_verdicts, 0u);
}

TEST_F(SimTier, AskingWhetherAPageIsThereEndsAtItsDeadline) {
  ASSERT_EQ(writer_.put(key_, 1).code, Code::kOk);
  ASSERT_TRUE(reader_.lane().contains(key_, reader_.deadline()));
  cluster_.set_network({.delay_min_ns = kMillisecond, .delay_max_ns = kMillisecond});
  const uint64_t deadline = reader_.deadline(500 * kMicrosecond);
  EXPECT_FALSE(reader_.lane().contains(key_, deadline));
  EXPECT_EQ(now(), deadline);
}

TEST_F(SimTier, DeadlineThatHasPassedIsStalledAtOnce) {
  const uint64_t before = now();
  EXPECT_EQ(reader_.fetch(key_, 0, 0).reason, Reason::kStalled);
  EXPECT_EQ(now(), before);
}

}  // namespace
}  // namespace farpage
