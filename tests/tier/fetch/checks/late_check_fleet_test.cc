// Pages that have landed, and whose payload is still being checked: with replicas.
#include "tests/tier/fetch/checks/late_checkers.h"
#include "tests/tier/fleet.h"

namespace farpage {
namespace {

using Outcome = CheckEnd::Outcome;

constexpr uint64_t kUsual = 9 * kMicrosecond;  // of a read
constexpr uint64_t kKeys = 60;

// Before the client that uses it.
class WithLateCheckers {
 protected:
  LateCheckers checkers_;

  ClientOptions client_options() {
    ClientOptions options;
    options.checkers = &checkers_;
    options.hedge_places = 1;
    return options;
  }
};

class LateCheckFleet : public WithLateCheckers, public FleetTest {
 protected:
  explicit LateCheckFleet(const SimClusterOptions& options = three_nodes())
      : FleetTest(steady(options), client_options()) {
    for (uint64_t number = 0; number < kKeys; ++number) {
      EXPECT_EQ(engine().put(test_key(number), number).code, Code::kOk);
    }
    fetch_all(10);  // each is located
  }
  ~LateCheckFleet() override {
    engine_.reset();
    EXPECT_EQ(checkers_.disturbed, 0u) << "nobody writes where a check looks";
    EXPECT_EQ(checkers_.shared, 0u);
    EXPECT_EQ(checkers_.under_way, 0u);
  }

  static SimClusterOptions steady(SimClusterOptions options) {
    options.node.lease_ms = 100;
    options.node.reuse_ms = 90;
    options.network.delay_min_ns = options.network.delay_max_ns = kUsual / 3;
    options.network.reorder = 1;
    return options;
  }
  void set_delay(uint64_t read_ns) {
    sim::SimOptions network;
    network.delay_min_ns = network.delay_max_ns = read_ns / 3;
    network.reorder = 1;
    cluster_.client_fabric(0).set_options(network);
  }
  // So that the peers' reads are known, and hedges may be.
  void fetch_all(int rounds) {
    for (uint64_t i = 0; i < kKeys * static_cast<uint64_t>(rounds); ++i) {
      const PageRequest request = {test_key(i % kKeys), 0, engine().slice(0)};
      PageVerdict verdict;
      Fetch fetch =
          lane().fetch({&request, 1}, {&verdict, 1}, engine().deadline(), {.hedge = true});
      ASSERT_TRUE(drive([&] { return fetch.released(); }));
      ASSERT_EQ(verdict.verdict, Verdict::kReady);
    }
  }
  template <typename Ready>
  bool drive(const Ready& ready) {
    for (int step = 0; step < 100'000; ++step) {
      lane().progress();
      if (ready()) return true;
      run_for(kMicrosecond);
    }
    return false;
  }
  Lane& lane() { return engine().lane(); }
  bool shows(const PageVerdict& verdict, uint64_t number) {
    std::vector<std::byte> page(kPageBytes);
    fill_page(page, test_key(number), number);
    return std::equal(page.begin(), page.end(), verdict.landed);
  }
};

TEST_F(LateCheckFleet, PageWhoseCheckSaysNoAtOneReplicaComesFromAnother) {
  int wrong = 3;  // looking again there does not help either
  checkers_.polls = [] { return 3; };
  checkers_.answer = [&](const PayloadCheck&) -> std::optional<Outcome> {
    if (wrong-- > 0) return Outcome::kBad;
    return std::nullopt;
  };
  const PageVerdict verdict = engine().fetch(test_key(1));
  EXPECT_EQ(verdict.verdict, Verdict::kReady) << reason_name(verdict.reason);
  EXPECT_EQ(verdict.replicas, 2);
  EXPECT_TRUE(shows(verdict, 1));
  EXPECT_EQ(metric("farpage_client_reports_total"), 1);
}

// Nothing is known of the page then, and so no node is told that it is corrupt.
TEST_F(LateCheckFleet, CheckThatTheDeviceFailsIsReportedToNobody) {
  int failures = 2;
  checkers_.polls = [] { return 3; };
  checkers_.answer = [&](const PayloadCheck&) -> std::optional<Outcome> {
    if (failures-- > 0) return Outcome::kFailed;
    return std::nullopt;
  };
  const PageVerdict verdict = engine().fetch(test_key(1));
  EXPECT_EQ(verdict.verdict, Verdict::kReady) << reason_name(verdict.reason);
  EXPECT_EQ(metric("farpage_client_reports_total"), 0);
}

TEST_F(LateCheckFleet, PageWhoseCheckSaysNoAtEveryReplicaIsCorrupt) {
  checkers_.polls = [] { return 3; };
  checkers_.answer = [](const PayloadCheck&) { return Outcome::kBad; };
  const PageVerdict verdict = engine().fetch(test_key(1));
  EXPECT_EQ(verdict.reason, Reason::kCorrupt);
  EXPECT_EQ(verdict.replicas, 2);
}

// A hedge is for reads that are slow.
TEST_F(LateCheckFleet, PageWhoseCheckLastsIsNotHedged) {
  checkers_.hold_all();
  const PageRequest request = {test_key(1), 0, engine().slice(0)};
  PageVerdict verdict;
  const LaneStats before = lane().stats();
  Fetch fetch = lane().fetch({&request, 1}, {&verdict, 1}, engine().deadline(), {.hedge = true});
  ASSERT_TRUE(drive([&] { return checkers_.under_way == 1; }));
  const uint64_t until_ns = now() + kMillisecond;
  drive([&] { return now() >= until_ns; });
  EXPECT_EQ(lane().stats().hedges, before.hedges);
  checkers_.hold_none();
  fetch.wait();
  EXPECT_TRUE(shows(verdict, 1));
}

// A page's first read takes long, and it is hedged; both land, and neither has been checked.
class HedgeBeingChecked : public LateCheckFleet {
 protected:
  void SetUp() override {
    checkers_.is_held = [this](const PayloadCheck& check) {
      return check.data == engine().frame(0).data() ? holds_first_ : holds_hedge_;
    };
    start();
    ASSERT_TRUE(drive([&] { return checkers_.under_way == 2; }));
    ASSERT_FALSE(fetch_.done());
  }
  void TearDown() override {
    holds_first_ = holds_hedge_ = false;
    fetch_ = {};
  }
  void start() {
    const LaneStats before = lane().stats();
    set_delay(20 * kUsual);
    fetch_ = lane().fetch({&request_, 1}, {&verdict_, 1}, engine().deadline(), {.hedge = true});
    set_delay(kUsual);
    drive([&] { return lane().stats().hedges > before.hedges || fetch_.done(); });
    hedges_ = lane().stats().hedges - before.hedges;
  }

  bool holds_first_ = true;
  bool holds_hedge_ = true;
  uint64_t hedges_ = 0;
  PageRequest request_ = {test_key(1), 0, engine().slice(0)};
  PageVerdict verdict_;
  Fetch fetch_;
};

TEST_F(HedgeBeingChecked, ThatIsWholeFirstLeavesTheDestinationHeldUntilTheOtherCheckHasEnded) {
  ASSERT_EQ(hedges_, 1u);
  holds_hedge_ = false;
  lane().progress();
  ASSERT_EQ(verdict_.verdict, Verdict::kReady);
  EXPECT_NE(verdict_.landed, engine().frame(0).data());
  EXPECT_TRUE(shows(verdict_, 1));
  EXPECT_EQ(verdict_.place, Place::kHeld);
  run_for(kMillisecond);
  lane().progress();
  EXPECT_FALSE(fetch_.released());
  holds_first_ = false;
  lane().progress();
  EXPECT_TRUE(fetch_.released());
  EXPECT_EQ(verdict_.place, Place::kReleased);
}

TEST_F(HedgeBeingChecked, ThatLosesKeepsItsPlaceUntilItsCheckHasEnded) {
  ASSERT_EQ(hedges_, 1u);
  holds_first_ = false;
  lane().progress();
  ASSERT_EQ(verdict_.verdict, Verdict::kReady);
  EXPECT_EQ(verdict_.landed, engine().frame(0).data());
  EXPECT_TRUE(fetch_.released());
  EXPECT_EQ(checkers_.under_way, 1u);
  fetch_ = {};
  // There is one place for a hedge, and a check looks at it.
  start();
  EXPECT_EQ(hedges_, 0u);
  holds_hedge_ = false;
  ASSERT_TRUE(drive([&] { return fetch_.done() && checkers_.under_way == 0; }));
  fetch_ = {};
  fetch_all(5);  // slow reads stay few
  start();
  EXPECT_EQ(hedges_, 1u);
  ASSERT_TRUE(drive([&] { return fetch_.released(); }));
}

TEST_F(HedgeBeingChecked, WhoseChecksEndTogetherIsOnePage) {
  const LaneStats before = lane().stats();
  holds_first_ = holds_hedge_ = false;
  lane().progress();
  EXPECT_TRUE(fetch_.released());
  EXPECT_EQ(verdict_.verdict, Verdict::kReady);
  EXPECT_TRUE(shows(verdict_, 1));
  EXPECT_EQ(lane().stats().pages_ready, before.pages_ready + 1);
}

TEST_F(HedgeBeingChecked, WhenTheDeadlineComesHoldsTheDestinationAlone) {
  run_for(3 * kSecond);
  EXPECT_TRUE(drive([&] { return fetch_.done(); }));
  EXPECT_EQ(verdict_.reason, Reason::kStalled);
  EXPECT_EQ(verdict_.place, Place::kHeld);
  holds_first_ = false;
  lane().progress();
  EXPECT_TRUE(fetch_.released());
  EXPECT_EQ(checkers_.under_way, 1u);
}

// The checker ends before the memory goes that it looks at.
TEST_F(HedgeBeingChecked, GoesWithTheLaneOnceNoCheckLooksAtItsPlace) {
  holds_first_ = false;
  lane().progress();
  ASSERT_TRUE(fetch_.released());
  fetch_ = {};
  engine_.reset();
  EXPECT_EQ(checkers_.given_up, 1u);
  EXPECT_EQ(checkers_.under_way, 0u);
}

class LateCheckInEpochs : public LateCheckFleet {
 protected:
  LateCheckInEpochs() : LateCheckFleet(registered_nodes()) {}
};

// As one whose read had not ended: it is asked for under the next epoch.
TEST_F(LateCheckInEpochs, PageIsAskedForAnewIfItsEpochEndsDuringTheCheck) {
  const PageRequest request = {test_key(1), 0, engine().slice(0)};
  PageVerdict verdict;
  checkers_.hold_all();
  Fetch fetch = lane().fetch({&request, 1}, {&verdict, 1}, engine().deadline());
  ASSERT_TRUE(drive([&] { return checkers_.under_way == 1; }));
  Epoch next = epoch();
  ++next.number;
  auto& runtime = cluster_.client_fabric(0).runtime();
  cluster_.epochs()
      ->access(cluster_.client_host(0), runtime)
      ->replace(next.number - 1, next, [](const Result<void>& begun) { EXPECT_TRUE(begun); });
  for (int i = 0; i < 500; ++i) {
    run_for(kMillisecond);
    lane().progress();
  }
  ASSERT_EQ(epoch().number, next.number);
  EXPECT_EQ(verdict.verdict, Verdict::kPending);
  EXPECT_EQ(checkers_.begun - checkers_.under_way, checkers_.begun - 1) << "and not beside it";
  checkers_.hold_none();
  fetch.wait();
  EXPECT_EQ(verdict.verdict, Verdict::kReady) << reason_name(verdict.reason);
  EXPECT_EQ(verdict.attempts, 2);
  EXPECT_TRUE(shows(verdict, 1));
}

}  // namespace
}  // namespace farpage
