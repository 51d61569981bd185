// A page that one of its two replicas has, while the client's link to that one is lost, and the
// other says that it has no such page.
#include "tests/tier/fleet.h"

namespace farpage {
namespace {

using fault::FaultKind;

constexpr uint64_t kPatience = 20 * kSecond;
constexpr uint64_t kRedial = 10 * kMillisecond;  // after the loss of a link
constexpr uint64_t kSoon = kView + 2 * kRedial;
constexpr uint64_t kReturn = 500 * kMillisecond;  // at most

// Node 0 has begun anew, and cannot fill itself: whatever it reads of node 1 fails. No member is
// left out of the epoch for its silence.
class ReturningReplica : public FleetTest {
 protected:
  static constexpr size_t kEmpty = 0;
  static constexpr size_t kHolder = 1;

  ReturningReplica() : FleetTest(options()), key_(key_with_primary(kEmpty)) {
    EXPECT_EQ(engine().put(key_, 1).code, Code::kOk);
    cluster_.end_node(NodeEnd::kPowerLost, kEmpty);
    run_for(kView);
    cluster_.start_node(kEmpty);
    run_for(10 * kView);
    use_all(engine());
    run_for(kView);
    EXPECT_EQ(epoch().members.size(), 2u);
    const PageVerdict verdict = engine().fetch(key_);
    EXPECT_EQ(verdict.verdict, Verdict::kReady) << reason_name(verdict.reason);
    EXPECT_EQ(verdict.replicas, 2) << "the first one has missed";
  }

  static SimClusterOptions options() {
    SimClusterOptions options = registered_nodes();
    options.nodes = 2;
    options.epochs.detect_ns = 0;
    options.wrap_node = [starts = size_t{0}](size_t node, sim::SimFabric& own) mutable {
      auto fabric = std::make_unique<fault::FaultFabric>(own, own.runtime().clock(), 1);
      fault::FaultPlan plan;
      plan.of(FaultKind::kFailed) = 1;
      plan.most = kNever;
      if (node == kEmpty && ++starts > 1) fabric->set_plan(plan);
      return fabric;
    };
    return options;
  }

  // Its renewals come to nothing: the lease ends within a view, and the link is dialled again.
  void silence_holder() {
    cluster_.silence_links(cluster_.client_host(0), cluster_.node_host(kHolder));
  }
  // Its process stands still: it takes connections, and its memory can be read.
  void stop_holder() { cluster_.node_fabric(kHolder).pause(); }
  void begin(const Epoch& next) {
    auto& runtime = cluster_.client_fabric(0).runtime();
    access_ = cluster_.epochs()->access(cluster_.client_host(0), runtime);
    access_->replace(next.number - 1, next, [](const Result<void>& begun) { EXPECT_TRUE(begun); });
  }
  PageVerdict fetch() {
    const PageVerdict verdict = engine().fetch(key_, 0, kPatience);
    if (verdict.verdict == Verdict::kReady) {
      EXPECT_EQ(engine().put_number_of(key_), 1u);
    }
    return verdict;
  }

  const PageKey key_;
  std::unique_ptr<EpochRegister> access_;
};

// Whenever the link is lost: before the other replica is asked, meanwhile, or while the holder is.
TEST_F(ReturningReplica, PageIsReadyOnceTheLinkIsBack) {
  constexpr uint64_t kReadNs = 200 * kMicrosecond;  // each of its steps
  cluster_.set_network({.delay_min_ns = kReadNs, .delay_max_ns = kReadNs});
  size_t waited = 0;
  for (uint64_t offset = 0; offset < 2 * kView; offset += kMillisecond / 4) {
    silence_holder();
    run_for(offset);
    const PageVerdict verdict = fetch();
    EXPECT_EQ(verdict.verdict, Verdict::kReady) << offset << ' ' << reason_name(verdict.reason);
    EXPECT_LE(verdict.took_ns, kSoon) << offset;
    if (verdict.took_ns > kRedial / 2) ++waited;
    run_for(4 * kView);
  }
  EXPECT_GT(waited, 4u);
}

// The holder, whose machine is held for a little longer, comes back last.
TEST_F(ReturningReplica, HoldOfAllMachinesThatEndsAllLeasesMakesNoMiss) {
  constexpr uint64_t kHold = 300 * kMillisecond;
  size_t unreachable = 0, waited = 0;
  for (uint64_t offset = 0; offset < 2 * kView; offset += kMillisecond) {
    cluster_.client_fabric(0).hold(kHold);
    cluster_.node_fabric(kHolder).hold(kHold + kView);
    run_for(kHold + offset);
    const PageVerdict verdict = fetch();
    EXPECT_TRUE(verdict.verdict == Verdict::kReady || verdict.reason == Reason::kUnreachable)
        << offset << ' ' << reason_name(verdict.reason);
    unreachable += verdict.reason == Reason::kUnreachable ? 1 : 0;
    if (verdict.verdict == Verdict::kReady && verdict.took_ns > kMillisecond) ++waited;
    run_for(4 * kView);
  }
  EXPECT_GT(unreachable, 0u);
  EXPECT_GT(waited, 0u);
}

TEST_F(ReturningReplica, MissIsSaidOnceTheDialHasFailed) {
  silence_holder();
  run_for(kView - kMillisecond);
  cluster_.end_node(NodeEnd::kPowerLost, kHolder);
  const PageVerdict verdict = fetch();
  EXPECT_EQ(verdict.reason, Reason::kMiss);
  EXPECT_LE(verdict.took_ns, kSoon);
  EXPECT_LE(fetch().took_ns, kMillisecond) << "later dials are waited for no more";
}

TEST_F(ReturningReplica, MissIsSaidAfterHalfASecondOfSilence) {
  stop_holder();
  run_for(kView + kMillisecond);
  const PageVerdict verdict = fetch();
  EXPECT_EQ(verdict.reason, Reason::kMiss);
  EXPECT_EQ(verdict.replicas, 1);
  EXPECT_GE(verdict.took_ns, kReturn - kView);
  EXPECT_LE(verdict.took_ns, kReturn + 2 * kMillisecond);
  const PageVerdict later = fetch();
  EXPECT_EQ(later.reason, Reason::kMiss);
  EXPECT_LE(later.took_ns, kMillisecond);
}

TEST_F(ReturningReplica, PageThatWaitsAtItsDeadlineIsNoMiss) {
  stop_holder();
  run_for(kView + kMillisecond);
  const PageVerdict verdict = engine().fetch(key_, 0, kReturn / 10);
  EXPECT_EQ(verdict.reason, Reason::kStalled);
  EXPECT_EQ(verdict.took_ns, kReturn / 10);
}

TEST_F(ReturningReplica, PageWhoseEpochsViewEndsMeanwhileIsUnreachable) {
  stop_holder();
  run_for(kView + kMillisecond);
  cluster_.epochs()->set_loss(1);
  const PageVerdict verdict = fetch();
  EXPECT_EQ(verdict.reason, Reason::kUnreachable);
  EXPECT_EQ(verdict.replicas, 1) << "the one that has missed";
  EXPECT_LE(verdict.took_ns, 2 * kView);
}

// Its page waits no more for a node that the epoch leaves out, nor does it forget the one that it
// may ask.
TEST_F(ReturningReplica, PageGoesOnInTheNextEpoch) {
  stop_holder();
  run_for(kView + kMillisecond);
  Epoch next = epoch();
  ++next.number;
  next.replicas = 1;
  std::erase_if(next.members, [](const Member& member) { return member.node == node_id("n1"); });
  cluster_.world().after(kRedial, [&] { begin(next); });
  const PageVerdict verdict = fetch();
  EXPECT_EQ(verdict.reason, Reason::kMiss);
  EXPECT_LE(verdict.took_ns, kReturn / 2);
  EXPECT_EQ(engine().client().epoch(), next.number);
}

// The holder's link is there, but of a run that the epoch does not name.
TEST_F(ReturningReplica, NobodyWaitsForARunThatIsOfNoUse) {
  cluster_.part(cluster_.node_host(kHolder), cluster_.register_host());
  Epoch next = epoch();
  ++next.number;
  for (Member& member : next.members) member.incarnation += member.node == node_id("n1") ? 1 : 0;
  begin(next);
  while (engine().client().epoch() != next.number) run_for(kMillisecond / 10);
  const PageVerdict verdict = fetch();
  EXPECT_EQ(verdict.reason, Reason::kMiss);
  EXPECT_LE(verdict.took_ns, kMillisecond);
}

// What waits for one node leaves room for pages of the others.
TEST_F(ReturningReplica, PagesThatWaitTakeNoPlaceOfTheOthers) {
  constexpr size_t kWaiting = Lane::kWindow;
  stop_holder();
  run_for(kView + kMillisecond);
  std::vector<PageRequest> absent;
  for (size_t i = 0; i < kWaiting; ++i) absent.push_back({test_key(1'000 + i), 0, {}});
  std::vector<PageVerdict> verdicts(absent.size());
  Fetch first = engine().lane().fetch(absent, verdicts, engine().deadline(kPatience));
  EXPECT_FALSE(first.wait_released(now() + kMillisecond));
  const uint64_t before = engine().lane().stats().operations;
  std::vector<PageRequest> others;
  for (size_t i = 0; i < 8; ++i) others.push_back({test_key(2'000 + i), 0, {}});
  std::vector<PageVerdict> of_others(others.size());
  Fetch second = engine().lane().fetch(others, of_others, engine().deadline(kPatience));
  EXPECT_FALSE(second.wait_released(now() + kMillisecond));
  EXPECT_GE(engine().lane().stats().operations, before + others.size()) << "they were asked for";
  first.wait();
  second.wait();
  for (const PageVerdict& verdict : verdicts) EXPECT_EQ(verdict.reason, Reason::kMiss);
}

}  // namespace
}  // namespace farpage
