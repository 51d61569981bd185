// Reads that are under way when another epoch begins.
#include "tests/tier/fleet.h"

namespace farpage {
namespace {

using fault::FaultKind;

// Reads may last for longer than most fetches have time.
class LongReads : public FleetTest {
 protected:
  static constexpr uint64_t kDeadline = 80 * kMillisecond;
  const PageKey key_ = test_key(1);
  LongReads() : FleetTest(options()) {
    // So that each peer's reads are known, and hedges may be.
    for (uint64_t number = 0; number < 300; ++number) {
      const PageRequest request = {test_key(number), 0, engine().slice(0)};
      PageVerdict verdict;
      const FetchOptions hedged = {.hedge = true};
      engine().lane().fetch({&request, 1}, {&verdict, 1}, engine().deadline(), hedged).wait();
    }
    EXPECT_EQ(engine().lane().stats().hedges, 0u);
    EXPECT_EQ(engine().put(key_, 1).code, Code::kOk);
    EXPECT_EQ(engine().fetch(key_).verdict, Verdict::kReady);
  }
  static SimClusterOptions options() {
    SimClusterOptions options = registered_nodes();
    options.node.lease_ms = 100;
    options.node.reuse_ms = 90;
    return options;
  }
  // Its first reads are lost, so many of them, and another epoch begins meanwhile.
  PageVerdict fetch_into(const Epoch& next, const FetchOptions& options, uint64_t lost = 1) {
    inject(FaultKind::kLost, lost);
    const PageRequest request = {key_, 0, engine().slice(0)};
    PageVerdict verdict;
    Fetch fetch =
        engine().lane().fetch({&request, 1}, {&verdict, 1}, engine().deadline(kDeadline), options);
    cluster_.set_network({});
    auto& runtime = cluster_.client_fabric(0).runtime();
    cluster_.epochs()
        ->access(cluster_.client_host(0), runtime)
        ->replace(next.number - 1, next, [](const Result<void>& begun) { EXPECT_TRUE(begun); });
    fetch.wait();
    EXPECT_EQ(faulty_.injected().of(FaultKind::kLost), lost);
    EXPECT_EQ(epoch().number, next.number);
    return verdict;
  }
  Epoch next_epoch() {
    Epoch next = epoch();
    ++next.number;
    return next;
  }
};

// Its read can bring nothing, so another replica is asked while there is time for one.
TEST_F(LongReads, SilentReplicaOfTheEpochBeforeIsGivenUpForAnother) {
  const PageVerdict verdict = fetch_into(next_epoch(), {});
  EXPECT_EQ(verdict.verdict, Verdict::kReady) << reason_name(verdict.reason);
  EXPECT_EQ(verdict.replicas, 2);
  EXPECT_EQ(verdict.attempts, 2);
}

TEST_F(LongReads, SilentReplicaOfTheEpochBeforeIsGivenUpThoughItsReadsAreNotKnown) {
  engine_.emplace(*client_, kPageBytes, 64);
  run_for(kView);
  const PageVerdict verdict = fetch_into(next_epoch(), {});
  EXPECT_EQ(verdict.verdict, Verdict::kReady) << reason_name(verdict.reason);
  EXPECT_EQ(verdict.replicas, 2);
}

TEST_F(LongReads, SilentHedgeOfTheEpochBeforeIsForgotten) {
  const PageVerdict verdict = fetch_into(next_epoch(), {.hedge = true}, 2);
  EXPECT_EQ(verdict.verdict, Verdict::kReady) << reason_name(verdict.reason);
  EXPECT_EQ(engine().lane().stats().hedges, 2u);
  EXPECT_EQ(engine().lane().stats().hedges_won, 1u);
}

TEST_F(LongReads, ReadOfTheEpochBeforeBringsNothing) {
  sim::SimOptions slow;
  slow.delay_min_ns = slow.delay_max_ns = 10 * kMillisecond;  // each of three steps
  cluster_.set_network(slow);
  const PageVerdict verdict = fetch_into(next_epoch(), {}, 0);
  EXPECT_EQ(verdict.verdict, Verdict::kReady) << reason_name(verdict.reason);
  EXPECT_EQ(verdict.attempts, 2);
  EXPECT_EQ(verdict.replicas, 1);
}

TEST_F(LongReads, SilentNodeThatIsAReplicaNoMoreIsHedged) {
  const size_t primary = nodes_of(key_)[0];
  cluster_.part(cluster_.client_host(0), cluster_.node_host(primary));
  run_for(100 * kMillisecond);  // only the other one can be asked
  cluster_.heal_all();
  Epoch next = next_epoch();
  next.replicas = 1;
  const PageVerdict verdict = fetch_into(next, {.hedge = true});
  EXPECT_EQ(verdict.verdict, Verdict::kReady) << reason_name(verdict.reason);
  EXPECT_EQ(engine().lane().stats().hedges_won, 1u);
  EXPECT_EQ(nodes_of(key_), std::vector{primary});
}

}  // namespace
}  // namespace farpage
