#include <gtest/gtest.h>

#include <optional>

#include "sim/sim_cluster.h"
#include "tests/support/engine.h"

namespace farpage {
namespace {

constexpr uint64_t kPageBytes = 512;
constexpr uint64_t kLease = 20 * kMillisecond;  // small_sim_node()
constexpr uint64_t kDelayNs = 300 * kMicrosecond;
constexpr uint64_t kMidwayNs = 100 * kMicrosecond;
constexpr uint64_t kHour = 3600 * kSecond;

struct Kind {
  const char* name;
  uint64_t nodes;
  bool uses_register;
};

std::ostream& operator<<(std::ostream& out, const Kind& kind) {
  return out << kind.name;
}

// A client whose machine has slept: its clock is later at once, and the others' are not.
class ClockJump : public testing::TestWithParam<Kind> {
 protected:
  static SimClusterOptions options(const Kind& kind) {
    SimClusterOptions options;
    options.nodes = kind.nodes;
    options.replicas = kind.nodes > 1 ? 2 : 1;
    options.uses_register = kind.uses_register;
    options.node.pool_bytes = 256 * (kPageBytes + sizeof(PageHeader));
    return options;
  }

  ClockJump() {
    run_for(10 * kLease);  // every member has been dialled, and takes puts
    engine_.emplace(*client_, kPageBytes, 8);
    run_for(kLease);
    EXPECT_EQ(engine_->put(key_, 1).code, Code::kOk);
    EXPECT_EQ(engine_->fetch(key_).verdict, Verdict::kReady);  // its location is known
    cluster_.set_network({.delay_min_ns = kDelayNs, .delay_max_ns = kDelayNs});
  }

  uint64_t now() const { return cluster_.now_ns(); }
  void run_for(uint64_t duration_ns) { cluster_.world().run_until(now() + duration_ns); }
  void jump(uint64_t ahead_ns) { cluster_.client_fabric(0).jump_clock(ahead_ns); }
  void jump_midway(uint64_t ahead_ns) {
    cluster_.world().after(kMidwayNs, [this, ahead_ns] { jump(ahead_ns); });
  }
  // No lease can be had anew: what the client still reads, it reads by the one that it has.
  void silence_nodes() {
    cluster_.silence_links();
    cluster_.let_dial(0, false);
    if (GetParam().uses_register) cluster_.part(cluster_.client_host(0), cluster_.register_host());
  }
  void expect_works_again() {
    EXPECT_TRUE(
        cluster_.world().wait_until(now() + kSecond, [this] { return client_->reachable(); }));
    run_for(10 * kLease);
    EXPECT_EQ(engine_->put(key_, 2).code, Code::kOk);
    EXPECT_EQ(engine_->fetch(key_).verdict, Verdict::kReady);
    EXPECT_EQ(engine_->put_number_of(key_), 2);
  }

  SimCluster cluster_{1, options(GetParam())};
  std::unique_ptr<Client> client_ = cluster_.connect().value();
  std::optional<Engine> engine_;
  const PageKey key_ = test_key(1);
};

TEST_P(ClockJump, ReadUnderWayIsNotBelievedOnceItsLeaseHasEnded) {
  silence_nodes();
  EXPECT_EQ(engine_->fetch(key_).verdict, Verdict::kReady) << "while the lease lasts";
  jump_midway(kLease);
  const uint64_t deadline = engine_->deadline();
  const PageVerdict verdict = engine_->fetch(key_);
  EXPECT_EQ(verdict.verdict, Verdict::kRecompute);
  EXPECT_EQ(verdict.reason, Reason::kUnreachable);
  EXPECT_LE(client_->clock().now_ns(), deadline);
  EXPECT_FALSE(client_->reachable());
  EXPECT_EQ(engine_->fetch(key_).reason, Reason::kUnreachable);
}

TEST_P(ClockJump, VerdictIsThereAtOnceWhenTheDeadlineHasPassed) {
  const uint64_t before = now();
  jump_midway(kHour);
  const PageRequest request = {key_, 0, engine_->slice(0)};
  PageVerdict verdict;
  {
    Fetch fetch = engine_->lane().fetch({&request, 1}, {&verdict, 1}, engine_->deadline());
    fetch.wait();
    EXPECT_EQ(now(), before + kMidwayNs);
    EXPECT_EQ(verdict.verdict, Verdict::kRecompute);
  }
  expect_works_again();
}

TEST_P(ClockJump, PutIsAnsweredAtOnceWhenItsDeadlineHasPassed) {
  const uint64_t before = now();
  jump_midway(kHour);
  EXPECT_NE(engine_->put(key_, 2).code, Code::kOk);
  EXPECT_GE(now(), before + kMidwayNs);
  EXPECT_LE(now(), before + 4 * kDelayNs) << "when nothing reads its source any more";
  expect_works_again();
}

TEST_P(ClockJump, FetchesAndPutsComeThroughWithTimeLeft) {
  for (uint64_t ahead : {kMillisecond, kLease / 2, kLease, 10 * kLease}) {
    jump_midway(ahead);
    uint64_t deadline = engine_->deadline();
    EXPECT_NE(engine_->fetch(key_).verdict, Verdict::kPending);
    EXPECT_LE(client_->clock().now_ns(), deadline) << ahead;
    run_for(10 * kLease);
    jump_midway(ahead);
    deadline = engine_->deadline();
    engine_->put(key_, 1);
    EXPECT_LE(client_->clock().now_ns(), deadline) << ahead;
    expect_works_again();
  }
}

INSTANTIATE_TEST_SUITE_P(, ClockJump,
                         testing::Values(Kind{"OneNode", 1, false}, Kind{"List", 3, false},
                                         Kind{"Register", 3, true}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace farpage
