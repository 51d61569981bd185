// Pages that have landed, and whose payload is still being checked: with one node.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "tests/tier/fetch/checks/late_checkers.h"
#include "tests/tier/fleet.h"

namespace farpage {
namespace {

using Outcome = CheckEnd::Outcome;

constexpr uint64_t kReadNs = 30 * kMicrosecond;
constexpr uint64_t kReuseNs = 20 * kMillisecond;

SimClusterOptions steady() {
  SimClusterOptions options;
  options.node.pool_bytes = 512 * (kPageBytes + sizeof(PageHeader));
  options.node.reuse_ms = kReuseNs / kMillisecond;
  options.node.lease_ms = 1'000;
  options.network = {.delay_min_ns = kReadNs / 3, .delay_max_ns = kReadNs / 3, .reorder = 1};
  return options;
}

struct Pages {
  std::vector<PageRequest> requests;
  std::vector<PageVerdict> verdicts;
  Fetch fetch;

  size_t ready() const {
    return static_cast<size_t>(
        std::ranges::count(verdicts, Verdict::kReady, &PageVerdict::verdict));
  }
};

class LateCheck : public testing::Test {
 protected:
  static constexpr size_t kPages = 200;

  void SetUp() override {
    for (size_t i = 0; i < kPages; ++i) ASSERT_EQ(engine().put(test_key(i), 1).code, Code::kOk);
    // Each is located, so that one read brings it.
    for (size_t i = 0; i < kPages; ++i) {
      ASSERT_EQ(engine().fetch(test_key(i)).verdict, Verdict::kReady);
    }
    for (size_t i = 0; i < kPages; ++i) std::ranges::fill(engine().frame(i), std::byte{0xEE});
    before_ = lane().stats();
    checkers_.batches.clear();
    checkers_.begun = 0;
  }
  void TearDown() override {
    engine_.reset();
    EXPECT_EQ(checkers_.disturbed, 0u) << "nobody writes where a check looks";
    EXPECT_EQ(checkers_.shared, 0u);
    EXPECT_EQ(checkers_.under_way, 0u);
  }

  ClientOptions options() {
    ClientOptions options;
    options.checkers = &checkers_;
    return options;
  }
  std::unique_ptr<Pages> start(size_t count, uint64_t in_ns = kSecond, size_t first = 0) {
    auto pages = std::make_unique<Pages>();
    for (size_t i = first; i < first + count; ++i) {
      pages->requests.push_back({test_key(i), 0, engine().slice(i)});
    }
    pages->verdicts.resize(count);
    pages->fetch = lane().fetch(pages->requests, pages->verdicts, engine().deadline(in_ns));
    return pages;
  }
  // Until everything that was posted has landed and been looked at.
  void land() {
    for (int step = 0; step < 20; ++step) {
      run_for(kReadNs / 3);
      lane().progress();
    }
  }
  void expect_whole(const Pages& pages, size_t first = 0) {
    for (size_t i = 0; i < pages.requests.size(); ++i) {
      EXPECT_EQ(pages.verdicts[i].verdict, Verdict::kReady);
      EXPECT_EQ(engine().put_number_of(test_key(first + i), first + i), 1u);
    }
  }
  uint64_t operations() { return lane().stats().operations - before_.operations; }
  uint64_t channels_ended() { return lane().stats().channels_ended - before_.channels_ended; }
  void run_for(uint64_t ns) { cluster_.world().run_until(cluster_.now_ns() + ns); }
  Engine& engine() { return *engine_; }
  Lane& lane() { return engine_->lane(); }

  LateCheckers checkers_;
  SimCluster cluster_{1, steady()};
  std::unique_ptr<Client> client_ = cluster_.connect(0, options()).value();
  std::optional<Engine> engine_{std::in_place, *client_, kPageBytes, kPages};
  LaneStats before_;
};

TEST_F(LateCheck, PageIsReadyOnceItsCheckHasEndedAndNotBefore) {
  checkers_.hold_all();
  const auto pages = start(1);
  land();
  EXPECT_EQ(checkers_.under_way, 1u);
  EXPECT_EQ(pages->verdicts[0].verdict, Verdict::kPending);
  EXPECT_FALSE(pages->fetch.done());
  run_for(kMillisecond);
  EXPECT_FALSE(lane().progress()) << "nothing has moved";
  checkers_.hold_none();
  EXPECT_TRUE(lane().progress());
  ASSERT_TRUE(pages->fetch.released());
  expect_whole(*pages);
  EXPECT_EQ(pages->verdicts[0].looks, 1);
  EXPECT_EQ(operations(), 1u);
  EXPECT_GE(pages->verdicts[0].took_ns, kMillisecond);
}

// The wait looks again for the check, though no channel has anything under way.
TEST_F(LateCheck, WaitLastsUntilTheCheckHasEnded) {
  checkers_.polls = [] { return 25; };
  const auto pages = start(3);
  const uint64_t began_ns = cluster_.now_ns();
  pages->fetch.wait();
  expect_whole(*pages);
  EXPECT_GE(cluster_.now_ns() - began_ns, kReadNs + 20 * 10 * kMicrosecond);
  EXPECT_LE(cluster_.now_ns() - began_ns, kReadNs + 50 * 20 * kMicrosecond);
}

// Its page has its verdict at the deadline, and until then and after it the thread sleeps.
TEST_F(LateCheck, CheckThatHangsIsLookedAtEverMoreSeldom) {
  constexpr uint64_t kMostLooks = 1'600;  // in a second: at first every 20 us, later every 1 ms
  checkers_.hold_all();
  const auto pages = start(1);
  pages->fetch.wait();
  EXPECT_EQ(pages->verdicts[0].verdict, Verdict::kRecompute);
  EXPECT_EQ(pages->verdicts[0].reason, Reason::kStalled);
  EXPECT_LT(checkers_.looks, kMostLooks);
  checkers_.looks = 0;
  EXPECT_FALSE(pages->fetch.wait_released(cluster_.now_ns() + kSecond));
  EXPECT_LT(checkers_.looks, kMostLooks);
  checkers_.hold_none();
  EXPECT_TRUE(pages->fetch.wait_released(cluster_.now_ns() + 2 * kMillisecond));
}

TEST_F(LateCheck, CheckThatHangsDelaysNoOther) {
  checkers_.polls = [] { return 5; };
  checkers_.is_held = [hung =
                           std::optional<const std::byte*>()](const PayloadCheck& check) mutable {
    if (!hung) hung = check.data;
    return *hung == check.data;
  };
  const auto first = start(1, kSecond);
  EXPECT_FALSE(first->fetch.wait_released(cluster_.now_ns() + 100 * kMillisecond));
  const auto second = start(1, kSecond, 1);
  const uint64_t began_ns = cluster_.now_ns();
  second->fetch.wait();
  expect_whole(*second, 1);
  EXPECT_LE(cluster_.now_ns() - began_ns, kReadNs + 10 * 20 * kMicrosecond);
  checkers_.hold_none();
}

// A checker that ends its checks at once costs no turn.
TEST_F(LateCheck, CheckThatEndsAtOnceIsConcludedInTheTurnInWhichThePageLanded) {
  const auto pages = start(1);
  run_for(2 * kReadNs);
  EXPECT_TRUE(lane().progress());
  EXPECT_TRUE(pages->fetch.released());
  expect_whole(*pages);
}

TEST_F(LateCheck, PagesThatLandInOneTurnAreBegunAsOneBatch) {
  const auto pages = start(20);
  run_for(2 * kReadNs);
  lane().progress();
  EXPECT_EQ(pages->ready(), 20u);
  EXPECT_EQ(checkers_.batches, std::vector<size_t>{20});
}

TEST_F(LateCheck, CheckerWithLittleRoomGetsTheRestOfTheBatchLater) {
  checkers_.room = 3;
  checkers_.polls = [] { return 1; };
  const auto pages = start(20);
  run_for(2 * kReadNs);  // all have landed
  lane().progress();
  EXPECT_EQ(checkers_.under_way, 3u);
  pages->fetch.wait();
  expect_whole(*pages);
  EXPECT_EQ(checkers_.begun, 20u);
  EXPECT_LE(*std::ranges::max_element(checkers_.batches), 3u);
}

TEST_F(LateCheck, ChecksMayEndInAnyOrder) {
  uint32_t last = 0;
  checkers_.polls = [&] { return last = (last + 17) % 40; };
  const auto pages = start(40);
  const auto twice = start(40, kSecond, 40);
  run_for(2 * kReadNs);  // all have landed
  pages->fetch.wait();
  twice->fetch.wait();
  expect_whole(*pages);
  expect_whole(*twice, 40);
}

TEST_F(LateCheck, PageWhoseCheckSaysNoIsReadAgain) {
  int wrong = 1;
  checkers_.answer = [&](const PayloadCheck&) -> std::optional<Outcome> {
    if (wrong-- > 0) return Outcome::kBad;
    return std::nullopt;
  };
  checkers_.polls = [] { return 2; };
  const auto pages = start(1);
  pages->fetch.wait();
  expect_whole(*pages);
  EXPECT_GT(operations(), 1u);
}

TEST_F(LateCheck, PageWhoseCheckSaysNoEachTimeIsCorrupt) {
  checkers_.answer = [](const PayloadCheck&) { return Outcome::kBad; };
  checkers_.polls = [] { return 2; };
  const auto pages = start(1);
  pages->fetch.wait();
  EXPECT_EQ(pages->verdicts[0].reason, Reason::kCorrupt);
  EXPECT_EQ(pages->verdicts[0].looks, 3)
      << "where it was last seen, and twice where the index says";
  EXPECT_EQ(checkers_.begun, 3u);
}

// Nothing is known of the page then, and so nobody is told that it is corrupt.
TEST_F(LateCheck, CheckThatTheDeviceFailsIsNoWordAboutThePage) {
  int failures = 2;
  checkers_.answer = [&](const PayloadCheck&) -> std::optional<Outcome> {
    if (failures-- > 0) return Outcome::kFailed;
    return std::nullopt;
  };
  checkers_.polls = [] { return 1; };
  const auto pages = start(1);
  pages->fetch.wait();
  expect_whole(*pages);
  EXPECT_EQ(checkers_.begun, 3u);
}

TEST_F(LateCheck, DeviceThatFailsEachTimeIsAskedNoMoreAfterAFewTimes) {
  checkers_.answer = [](const PayloadCheck&) { return Outcome::kFailed; };
  checkers_.polls = [] { return 1; };
  const auto pages = start(1);
  const uint64_t began_ns = cluster_.now_ns();
  pages->fetch.wait();
  EXPECT_EQ(pages->verdicts[0].reason, Reason::kUnreachable);
  EXPECT_EQ(pages->verdicts[0].place, Place::kReleased);
  EXPECT_EQ(checkers_.begun, 3u);
  EXPECT_LT(cluster_.now_ns() - began_ns, kMillisecond) << "and not at the deadline";
}

TEST_F(LateCheck, DeadlineThatPassesDuringTheCheckHoldsTheDestinationUntilItHasEnded) {
  checkers_.hold_all();
  const auto pages = start(2, 2 * kReadNs);
  const uint64_t deadline_ns = engine().deadline(2 * kReadNs);
  pages->fetch.wait();
  EXPECT_EQ(cluster_.now_ns(), deadline_ns);
  for (const PageVerdict& verdict : pages->verdicts) {
    EXPECT_EQ(verdict.reason, Reason::kStalled);
    EXPECT_EQ(verdict.place, Place::kHeld);
  }
  EXPECT_FALSE(pages->fetch.released());
  EXPECT_FALSE(pages->fetch.wait_released(deadline_ns + kMillisecond));
  checkers_.hold_none();
  EXPECT_TRUE(pages->fetch.wait_released(deadline_ns + 2 * kMillisecond));
  for (const PageVerdict& verdict : pages->verdicts) {
    EXPECT_EQ(verdict.verdict, Verdict::kRecompute) << "a verdict is given once";
    EXPECT_EQ(verdict.place, Place::kReleased);
  }
  EXPECT_EQ(checkers_.under_way, 0u);
}

// The clock after the check decides (protocol rule 19), not the one after the read.
TEST_F(LateCheck, GoodCheckThatEndsAfterTheDeadlineMakesNothingReady) {
  checkers_.hold_all();
  const auto pages = start(1, 2 * kReadNs);
  land();  // the deadline passes, and the lane has looked
  run_for(kMillisecond);
  checkers_.hold_none();
  lane().progress();
  EXPECT_EQ(pages->verdicts[0].reason, Reason::kStalled);
}

TEST_F(LateCheck, CheckThatEndsAtTheLookAfterTheDeadlineIsTooLate) {
  checkers_.hold_all();
  const auto pages = start(1, 4 * kReadNs);
  run_for(2 * kReadNs);
  lane().progress();
  EXPECT_EQ(checkers_.under_way, 1u);
  run_for(2 * kReadNs);  // nobody looks before it has passed
  checkers_.hold_none();
  lane().progress();
  EXPECT_EQ(pages->verdicts[0].reason, Reason::kStalled);
  EXPECT_TRUE(pages->fetch.released());
}

// The check itself takes what was left.
TEST_F(LateCheck, CheckThatTakesAllTheTimeThatWasLeftMakesNothingReady) {
  checkers_.answer = [&](const PayloadCheck&) {
    run_for(3 * kReadNs);
    return Outcome::kGood;
  };
  const auto pages = start(1, 3 * kReadNs);
  run_for(2 * kReadNs);
  lane().progress();
  EXPECT_EQ(pages->verdicts[0].reason, Reason::kStalled);
  EXPECT_TRUE(pages->fetch.released());
}

// The read has to end within `read_window`; its check may last longer, and costs no path.
TEST_F(LateCheck, CheckThatLastsForLongerThanAReadMayIsWaitedFor) {
  checkers_.hold_all();
  const auto pages = start(1);
  land();
  run_for(2 * kReuseNs);
  const auto other = start(1, kSecond, 1);
  for (int i = 0; i < 100; ++i) {
    run_for(kReuseNs / 10);
    lane().progress();
  }
  EXPECT_EQ(channels_ended(), 0u);
  checkers_.hold_none();
  pages->fetch.wait();
  other->fetch.wait();
  expect_whole(*pages);
  expect_whole(*other, 1);
  EXPECT_EQ(pages->verdicts[0].attempts, 1);
}

TEST_F(LateCheck, ReadThatEndedTooLateIsNotUsedHoweverGoodItsCheck) {
  // As long as `read_window`, and nobody drives the lane: bytes that land then may be of another
  // page already.
  const auto pages = start(1);
  run_for(2 * kReuseNs);
  checkers_.polls = [] { return 3; };
  pages->fetch.wait();
  expect_whole(*pages);
  EXPECT_EQ(operations(), 2u) << "it is read again";
}

TEST_F(LateCheck, FetchThatIsLetGoDuringTheCheckWaitsForIt) {
  checkers_.polls = [] { return 50; };
  {
    auto pages = start(8);
    run_for(2 * kReadNs);
    lane().progress();
    EXPECT_EQ(checkers_.under_way, 8u);
    pages->fetch = {};
    EXPECT_EQ(checkers_.under_way, 0u);
  }
  checkers_.polls = [] { return 0; };
  const auto again = start(8);
  again->fetch.wait();
  expect_whole(*again);
}

// 128 pages are under way at one time, and one that is being checked is one of them.
TEST_F(LateCheck, PlacesOfTheWindowAreNotUsedAgainBeforeTheCheckHasEnded) {
  checkers_.hold_all();
  const auto pages = start(kPages);
  land();
  EXPECT_EQ(operations(), Lane::kWindow);
  EXPECT_EQ(checkers_.under_way, Lane::kWindow);
  checkers_.hold_none();
  pages->fetch.wait();
  expect_whole(*pages);
  EXPECT_EQ(operations(), kPages);
}

// ... nor if the page has had its verdict long since.
TEST_F(LateCheck, PlacesOfPagesThatMissedTheirDeadlineAreNotUsedAgainBeforeTheCheckHasEnded) {
  checkers_.hold_all();
  const auto late = start(Lane::kWindow, 2 * kReadNs);
  late->fetch.wait();
  EXPECT_EQ(checkers_.under_way, Lane::kWindow);
  const auto next = start(kPages - Lane::kWindow, kSecond, Lane::kWindow);
  land();
  EXPECT_EQ(operations(), Lane::kWindow);
  EXPECT_EQ(next->ready(), 0u);
  checkers_.hold_none();
  next->fetch.wait();
  expect_whole(*next, Lane::kWindow);
  EXPECT_TRUE(late->fetch.released());
}

// A new connection to the same run of the node: the page was whole when it landed, and it is ready.
TEST_F(LateCheck, PathThatEndsDuringTheCheckTakesNothingFromThePage) {
  checkers_.hold_all();
  const auto pages = start(4);
  land();
  cluster_.cut_links();
  for (int i = 0; i < 100; ++i) {
    run_for(kMillisecond);
    lane().progress();
  }
  EXPECT_EQ(checkers_.under_way, 4u);
  EXPECT_EQ(pages->ready(), 0u);
  checkers_.hold_none();
  lane().progress();
  EXPECT_EQ(pages->ready(), 4u);
  expect_whole(*pages);
}

TEST_F(LateCheck, PageThatIsBadAfterItsPathHasEndedIsReadOverTheNextOne) {
  checkers_.hold_all();
  const auto pages = start(4);
  land();
  cluster_.cut_links();
  run_for(50 * kMillisecond);
  lane().progress();
  size_t bad = 4;
  checkers_.answer = [&](const PayloadCheck&) -> std::optional<Outcome> {
    if (bad-- > 0) return Outcome::kBad;
    bad = 0;
    return std::nullopt;
  };
  checkers_.hold_none();
  pages->fetch.wait();
  expect_whole(*pages);
}

// Another run of the node has other pages: what the one before had is asked for anew.
TEST_F(LateCheck, NodeThatBeginsAnewDuringTheCheckIsAskedAnew) {
  checkers_.hold_all();
  const auto pages = start(1, 20 * kSecond);
  land();
  cluster_.end_node(NodeEnd::kStopped);
  cluster_.start_node();
  for (int i = 0; i < 1'000; ++i) {
    run_for(kMillisecond);
    lane().progress();
  }
  ASSERT_EQ(pages->verdicts[0].verdict, Verdict::kPending);
  checkers_.hold_none();
  pages->fetch.wait();
  EXPECT_EQ(pages->verdicts[0].reason, Reason::kMiss);
}

// No read is under way, and no page is without a verdict.
TEST_F(LateCheck, LaneThatHasNothingUnderWayButChecksGoesOnToDriveThem) {
  checkers_.polls = [] { return 5; };
  const auto pages = start(1, 2 * kReadNs);
  pages->fetch.wait();
  EXPECT_EQ(pages->verdicts[0].place, Place::kHeld);
  for (int i = 0; i < 10; ++i) lane().progress();
  EXPECT_TRUE(pages->fetch.released());
}

// How long the check lasts is no word about the peer: pages that would come later than their
// recompute are known by their reads.
TEST_F(LateCheck, TimeOfTheCheckIsNotThePeers) {
  const auto fetch_one = [&](uint64_t recompute_ns) {
    const PageRequest request = {test_key(1), 0, engine().slice(1)};
    PageVerdict verdict;
    lane()
        .fetch({&request, 1}, {&verdict, 1}, engine().deadline(), {.recompute_ns = recompute_ns})
        .wait();
    return verdict;
  };
  checkers_.polls = [] { return 50; };
  for (int i = 0; i < 100; ++i) EXPECT_EQ(fetch_one(kSecond).verdict, Verdict::kReady);
  EXPECT_EQ(fetch_one(10 * kReadNs).verdict, Verdict::kReady);
  EXPECT_EQ(fetch_one(kReadNs / 10).reason, Reason::kSlower) << "as it was meant";
}

}  // namespace
}  // namespace farpage
