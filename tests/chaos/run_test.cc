#include "chaos/run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace farpage::chaos {
namespace {

Plan plan_of(uint64_t keys, uint64_t clients, uint64_t nodes) {
  Plan plan;
  plan.seed = 1;
  plan.keys = keys;
  plan.cluster.clients = clients;
  plan.cluster.nodes = nodes;
  plan.cluster.replicas = 2;
  plan.cluster.uses_register = true;
  return plan;
}

// A silence that outlasts the plan ends while the run is being judged, and the losses before it do
// not come back then.
TEST(ChaosRun, RegisterLosesNothingWhileARunIsJudged) {
  Plan plan = plan_of(4, 2, 3);
  plan.cluster.epochs.loss = 0.9;
  for (uint64_t key = 0; key < plan.keys; ++key) {
    plan.actions.push_back({0, PutPages{0, {key}, 5 * kSecond}});
  }
  plan.actions.push_back(
      {500 * kMillisecond, Disturb{Disturbance::kRegisterSilent, 3, 0, 100 * kMillisecond}});
  const RunResult run = run_plan(plan);
  for (const Finding& finding : run.findings) ADD_FAILURE() << finding;
  EXPECT_GE(run.ready, 2 * plan.cluster.clients) << "what is put at the end";
}

// A node has come back, and those of the others' pages that it is to hold again it has not brought
// yet when one of the others ends: what the third held of them it gave up when it was to hold them
// no more.
Plan restarts_one_after_the_other(uint64_t fill_bytes_per_s) {
  Plan plan = plan_of(12, 1, 3);
  plan.cluster.epochs.detect_ns = 20 * kMillisecond;
  plan.cluster.node.page_bytes = 4 * kKiB;
  plan.cluster.node.pool_bytes = 16 * (4 * kKiB + sizeof(PageHeader));
  plan.cluster.node.fill_bytes_per_s = fill_bytes_per_s;
  plan.actions.push_back({0, EndNode{0, NodeEnd::kPowerLost, 200 * kMillisecond}});
  for (uint64_t key = 0; key < plan.keys; ++key) {
    plan.actions.push_back({100 * kMillisecond, PutPages{0, {key}, 100 * kMillisecond}});
  }
  plan.actions.push_back({250 * kMillisecond, EndNode{1, NodeEnd::kPowerLost, 100 * kMillisecond}});
  plan.actions.push_back({400 * kMillisecond, AskForPage{0, 0, kMillisecond}});
  return plan;
}

TEST(ChaosRun, PagesThatAreLostToEpochsFasterThanFillsAreCountedApart) {
  const RunResult in_time = run_plan(restarts_one_after_the_other(256 * kMiB));
  EXPECT_EQ(in_time.findings, std::vector<Finding>{});
  EXPECT_GT(in_time.pages_handed_over, 0u);
  EXPECT_EQ(in_time.lost_to_fast_epochs, 0u);
  const RunResult too_fast = run_plan(restarts_one_after_the_other(64 * kKiB));
  EXPECT_EQ(too_fast.findings, std::vector<Finding>{});
  EXPECT_GT(too_fast.lost_to_fast_epochs, 0u);
}

// A client asks for one page, and puts it, every millisecond of 80, with little time.
Plan busy_plan() {
  Plan plan = plan_of(1, 1, 2);
  for (uint64_t ms = 0; ms < 80; ++ms) {
    plan.actions.push_back({ms * kMillisecond, PutPages{0, {0}, 4 * kMillisecond}});
    plan.actions.push_back({ms * kMillisecond, FetchPages{0, {0}, kMillisecond / 2, false}});
  }
  return plan;
}

struct Overlap {
  Disturbance kind;
  size_t host;
  size_t other;
};

std::ostream& operator<<(std::ostream& out, const Overlap& overlap) {
  return out << kDisturbanceNames[static_cast<size_t>(overlap.kind)];
}

class Overlapping : public testing::TestWithParam<Overlap> {
 protected:
  static RunResult run(const std::vector<std::pair<uint64_t, uint64_t>>& from_and_for_ms) {
    const auto [kind, host, other] = GetParam();
    Plan plan = busy_plan();
    for (const auto& [from_ms, for_ms] : from_and_for_ms) {
      plan.actions.push_back(
          {from_ms * kMillisecond + 1, Disturb{kind, host, other, for_ms * kMillisecond}});
      // So that there are dials to refuse.
      if (kind != Disturbance::kDialsRefused) continue;
      plan.actions.push_back(
          {from_ms * kMillisecond + 2, Disturb{Disturbance::kLinksCut, host, 0, 0}});
      plan.actions.push_back(
          {from_ms * kMillisecond + 2, Disturb{Disturbance::kLinksCut, host, 1, 0}});
    }
    std::ranges::stable_sort(plan.actions, {}, &Action::at_ns);
    RunResult result = run_plan(plan);
    for (const Finding& finding : result.findings) ADD_FAILURE() << finding;
    return result;
  }
};

// As if there were the longer one alone.
TEST_P(Overlapping, LastsAsLongAsTheLastOfThem) {
  const RunResult longer = run({{10, 60}});
  const RunResult both = run({{10, 60}, {12, 1}});
  const RunResult shorter = run({{10, 1}});
  EXPECT_EQ(both.puts_acknowledged, longer.puts_acknowledged);
  EXPECT_EQ(both.ready, longer.ready);
  EXPECT_LT(longer.puts_acknowledged + longer.ready + 20,
            shorter.puts_acknowledged + shorter.ready);
}

INSTANTIATE_TEST_SUITE_P(Chaos, Overlapping,
                         testing::Values(Overlap{Disturbance::kNodePaused, 2, 0},
                                         Overlap{Disturbance::kClientPaused, 2, 0},
                                         Overlap{Disturbance::kPeersStopped, 2, 0},
                                         Overlap{Disturbance::kParted, 2, 0},
                                         Overlap{Disturbance::kDialsRefused, 2, 0},
                                         Overlap{Disturbance::kRegisterSilent, 2, 0},
                                         Overlap{Disturbance::kEpochUnread, 2, 0}),
                         [](const auto& info) {
                           return std::string(
                               kDisturbanceNames[static_cast<size_t>(info.param.kind)]);
                         });

// A node's next run serves the pages that it left, and nothing else: a missing page is a finding
// where no other node could have taken puts meanwhile.
TEST(ChaosRun, PagesThatANodeLeavesToItsNextRunAreJudged) {
  for (const uint64_t nodes : {1, 3}) {
    PlanOptions options;
    options.nodes = nodes;
    options.replicas = std::min<uint64_t>(nodes, 2);
    options.keep_pools = true;
    uint64_t kept = 0;
    for (uint64_t seed = 1; seed <= 60; ++seed) {
      const RunResult run = run_plan(draw_plan(seed, options));
      EXPECT_EQ(run.findings, std::vector<Finding>{}) << nodes << " nodes, seed " << seed;
      kept += run.pages_kept;
    }
    EXPECT_GT(kept, 0u);
  }
}

}  // namespace
}  // namespace farpage::chaos
