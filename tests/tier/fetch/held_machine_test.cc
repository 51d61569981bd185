// Machines whose clock has stood still while the world went on.
#include <array>

#include "tests/tier/fleet.h"

namespace farpage {
namespace {

constexpr uint64_t kLook = kView / 8;  // between two looks at both clocks
constexpr uint64_t kHold = 300 * kMillisecond;

struct Kind {
  const char* name;
  uint64_t nodes;
  bool uses_register;
  uint64_t leases;  // of a client
};

std::ostream& operator<<(std::ostream& out, const Kind& kind) {
  return out << kind.name;
}

class HeldMachine : public testing::TestWithParam<Kind> {
 protected:
  static SimClusterOptions options(const Kind& kind) {
    SimClusterOptions options = three_nodes();
    options.nodes = kind.nodes;
    options.replicas = kind.nodes > 1 ? 2 : 1;
    options.uses_register = kind.uses_register;
    return options;
  }
  HeldMachine() {
    run_for(10 * kView);
    engine_.emplace(*client_, kPageBytes, 8);
    use_all(*engine_);
    run_for(kView);
    EXPECT_EQ(engine_->put(key_, 1).code, Code::kOk);
    EXPECT_EQ(engine_->fetch(key_).verdict, Verdict::kReady);
  }

  sim::SimFabric& machine() { return cluster_.client_fabric(0); }
  uint64_t now() const { return cluster_.now_ns(); }
  void run_for(uint64_t duration_ns) { cluster_.world().run_until(now() + duration_ns); }
  // No lease can be had anew: what the client still reads, it reads by the ones that it has.
  void silence_nodes() {
    cluster_.silence_links();
    cluster_.let_dial(0, false);
    if (GetParam().uses_register) cluster_.part(cluster_.client_host(0), cluster_.register_host());
  }
  double held_leases() const {
    RecordedMetrics metrics;
    client_->describe(metrics);
    return metrics.values["farpage_client_held_leases_total"];
  }
  Reason fetch() { return engine_->fetch(key_, 0, kMillisecond).reason; }

  SimCluster cluster_{1, options(GetParam())};
  std::unique_ptr<Client> client_ = cluster_.connect().value();
  std::optional<Engine> engine_;
  const PageKey key_ = test_key(1);
};

TEST_P(HeldMachine, LeasesOfBeforeEndAtTheNextLook) {
  silence_nodes();
  EXPECT_EQ(fetch(), Reason::kNone) << "while the lease lasts";
  machine().hold(kHold);
  run_for(kHold + kLook);
  EXPECT_EQ(fetch(), Reason::kUnreachable);
  EXPECT_EQ(held_leases(), GetParam().leases);
}

TEST_P(HeldMachine, LeasesAreHadAnew) {
  machine().hold(kHold);
  run_for(kHold + kLook);
  EXPECT_EQ(held_leases(), GetParam().leases);
  run_for(2 * kView);
  EXPECT_EQ(fetch(), Reason::kNone);
  EXPECT_EQ(engine_->put(key_, 2).code, Code::kOk);
  run_for(10 * kView);
  EXPECT_EQ(held_leases(), GetParam().leases) << "one hold ends each lease once";
}

// Whenever it is held: what was asked for before, and answered afterwards, is worth nothing.
TEST_P(HeldMachine, AnswersToWhatWasAskedBeforeGrantNothing) {
  cluster_.set_control_delay(kMillisecond, kMillisecond);
  uint64_t held_while_asking = 0;
  for (uint64_t offset = 0; offset < kView; offset += kView / 64) {
    run_for(4 * kView + offset);
    machine().hold(kHold);
    run_for(kHold + 1);
    if (!client_->reachable()) ++held_while_asking;
    run_for(kLook);
    EXPECT_GE(held_leases(), GetParam().leases) << offset;
  }
  EXPECT_GT(held_while_asking, 0u);
}

TEST_P(HeldMachine, WallClockThatIsSetAheadEndsThemToo) {
  silence_nodes();
  machine().set_wall_clock(kHold);
  run_for(kLook);
  EXPECT_EQ(fetch(), Reason::kUnreachable);
}

TEST_P(HeldMachine, WallClockThatIsSetBackOrALittleEndsNone) {
  silence_nodes();
  for (const int64_t ahead : {-int64_t{3600 * kSecond}, int64_t{50 * kMillisecond}}) {
    machine().set_wall_clock(ahead);
    run_for(kLook);
    EXPECT_EQ(fetch(), Reason::kNone) << ahead;
  }
  EXPECT_EQ(held_leases(), 0);
}

TEST_P(HeldMachine, MachineThatSleptWasNotHeld) {
  machine().jump_clock(kView / 2);
  run_for(10 * kView);
  machine().jump_clock(3600 * kSecond);
  run_for(10 * kView);
  EXPECT_EQ(fetch(), Reason::kNone);
  EXPECT_EQ(held_leases(), 0);
}

INSTANTIATE_TEST_SUITE_P(, HeldMachine,
                         testing::Values(Kind{"OneNode", 1, false, 1}, Kind{"List", 3, false, 3},
                                         Kind{"Register", 3, true, 4}),
                         [](const auto& info) { return std::string(info.param.name); });

// I2: while a client's machine is held its fleet goes on to another epoch, in which the page is put
// again, and a node that nobody told of it still serves the one before.
class HeldReader : public FleetTest {
 protected:
  HeldReader() : FleetTest(registered_nodes()) {}
};

TEST_F(HeldReader, PageOfAnEpochThatHasEndedIsNotReadAfterTheNextLook) {
  const PageKey key = key_with_primary(0);
  ASSERT_EQ(engine().put(key, 1).code, Code::kOk);
  ASSERT_EQ(engine().fetch(key).verdict, Verdict::kReady);
  const std::unique_ptr<Client> other = [&] {
    ClientOptions options;
    options.staging_bytes = 64 * kKiB;
    return Client::connect(options, cluster_.node_fabric(1).runtime(), cluster_.node_fabric(1),
                           cluster_.fleet_for_node(1))
        .value();
  }();
  constexpr uint64_t kLong = 2 * kSecond;
  cluster_.client_fabric(0).hold(kLong);
  const uint64_t back = now() + kLong;
  cluster_.part(cluster_.client_host(0), cluster_.register_host());
  cluster_.part(cluster_.node_host(0), cluster_.register_host());
  for (size_t node : {1, 2}) cluster_.part(cluster_.node_host(0), cluster_.node_host(node));
  run_for(kSecond);
  ASSERT_EQ(epoch().members.size(), 2u) << "without the page's first primary";
  {
    Engine writer(*other, kPageBytes, 1);
    ASSERT_EQ(writer.put(key, 2, 500 * kMillisecond).code, Code::kOk);
  }
  ASSERT_LT(now(), back);
  cluster_.world().run_until(back + kLook);
  const PageVerdict verdict = engine().fetch(key, 0, kMillisecond);
  EXPECT_EQ(verdict.reason, Reason::kUnreachable)
      << "put " << engine().put_number_of(key).value_or(0);
}

}  // namespace
}  // namespace farpage
