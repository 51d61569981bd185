#include "chaos/ledger.h"

#include <gtest/gtest.h>

#include <memory>

#include "sim/fault/fault_fabric.h"
#include "sim/sim_cluster.h"

namespace farpage::chaos {
namespace {

using fault::FaultKind;

constexpr uint64_t kPageBytes = 512;
constexpr uint64_t kSoonNs = 5 * kMillisecond;
constexpr uint64_t kLeaseNs = 20 * kMillisecond;

// One engine over a fabric that spoils so many operations in one way.
class LedgerTest : public testing::Test {
 protected:
  LedgerTest() {
    faulty_.watch([this](const Operation& operation, std::optional<FaultKind> fault) {
      ledger_.passed(operation, fault);
    });
    engine_ =
        std::make_unique<SimEngine>(cluster_.world(), cluster_.connect(0, {}, &faulty_).value(),
                                    truth_, findings_, kPageBytes, &ledger_);
    ledger_.add(*engine_);
    EXPECT_EQ(engine_->put_now(0, kSoonNs).code, Code::kOk);
    EXPECT_EQ(engine_->fetch_now(0, kSoonNs).verdict, Verdict::kReady);
  }
  ~LedgerTest() override {
    for (const Finding& finding : findings_.all()) ADD_FAILURE() << finding;
  }

  void spoil(FaultKind kind, uint64_t most) {
    fault::FaultPlan plan;
    plan.of(kind) = 1;
    plan.most = most;
    faulty_.set_plan(plan);
  }
  uint64_t injected(FaultKind kind) const { return ledger_.injected()[kind_of(kind)]; }
  uint64_t caught(FaultKind kind) const { return ledger_.caught()[kind_of(kind)]; }

  SimCluster cluster_{1, {}};
  Truth truth_;
  Findings findings_;
  Ledger ledger_{cluster_, truth_, kLeaseNs};
  fault::FaultFabric faulty_{cluster_.client_fabric(0), cluster_.world().clock(), 1};
  std::unique_ptr<SimEngine> engine_;
};

TEST_F(LedgerTest, FlipThatIsReadAgainIsCaught) {
  spoil(FaultKind::kFlippedPayload, 1);
  EXPECT_EQ(engine_->fetch_now(0, kSoonNs).verdict, Verdict::kReady);
  EXPECT_EQ(injected(FaultKind::kFlippedPayload), 1u);
  EXPECT_EQ(caught(FaultKind::kFlippedPayload), 1u);
}

TEST_F(LedgerTest, FlipsThatEndAsRecomputeAreCaught) {
  spoil(FaultKind::kFlippedPayload, kNever);
  EXPECT_EQ(engine_->fetch_now(0, kSoonNs).verdict, Verdict::kRecompute);
  EXPECT_GT(caught(FaultKind::kFlippedPayload), 0u);
  EXPECT_EQ(caught(FaultKind::kFlippedPayload), injected(FaultKind::kFlippedPayload));
}

TEST_F(LedgerTest, WriteThatIsFlippedIsCaughtWhereThePutIsRefused) {
  spoil(FaultKind::kFlippedWrite, 1);
  EXPECT_NE(engine_->put_now(0, kSoonNs).code, Code::kOk);
  EXPECT_EQ(caught(FaultKind::kFlippedWrite), 1u);
}

TEST_F(LedgerTest, WhatNobodyWaitsForIsNotCaught) {
  spoil(FaultKind::kFlippedHeader, kNever);
  engine_->check_contains(0, kSoonNs);
  EXPECT_GT(injected(FaultKind::kFlippedHeader), 0u) << "of buckets";
  EXPECT_EQ(caught(FaultKind::kFlippedHeader), 0u);
}

TEST_F(LedgerTest, BitAtRestIsCaughtOnceByWhoReadsIt) {
  const auto memory = std::make_shared<std::byte>(std::byte{0x40});
  ledger_.flipped_at_rest(0, {memory.get(), kPageBytes * 100, memory});
  EXPECT_EQ(engine_->fetch_now(0, kSoonNs).verdict, Verdict::kReady);
  EXPECT_EQ(injected(FaultKind::kFlippedAtRest), 1u);
  EXPECT_EQ(caught(FaultKind::kFlippedAtRest), 0u) << "it lies elsewhere";
}

TEST_F(LedgerTest, DisturbanceIsCaughtByWhoeverGivesUpMeanwhile) {
  ledger_.disturbed(Disturbance::kKilled, {0, 0}, kSoonNs);
  cluster_.world().run_until(cluster_.now_ns() + kLeaseNs + 2 * kSoonNs);
  cluster_.end_node(NodeEnd::kKilled);
  ledger_.disturbed(Disturbance::kPowerLost, {0, 0}, kSoonNs);
  EXPECT_NE(engine_->put_now(0, kSoonNs).code, Code::kOk);
  EXPECT_EQ(ledger_.caught()[kind_of(Disturbance::kPowerLost)], 1u);
  EXPECT_EQ(ledger_.caught()[kind_of(Disturbance::kKilled)], 0u) << "it was over before";
}

}  // namespace
}  // namespace farpage::chaos
