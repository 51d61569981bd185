#include "chaos/plan.h"

#include <gtest/gtest.h>

#include "chaos/campaign_options.h"
#include "chaos/run.h"

namespace farpage::chaos {
namespace {

std::vector<std::string> lines(const Plan& plan) {
  std::vector<std::string> lines;
  for (const Action& action : plan.actions) lines.push_back(describe(action));
  return lines;
}

TEST(ChaosPlan, IsTheSameForTheSameSeed) {
  EXPECT_EQ(lines(draw_plan(7, {})), lines(draw_plan(7, {})));
  EXPECT_NE(lines(draw_plan(7, {})), lines(draw_plan(8, {})));
}

TEST(ChaosPlan, RunsTheSameAgain) {
  const Plan plan = draw_plan(3, {});
  const RunResult first = run_plan(plan);
  const RunResult second = run_plan(plan);
  EXPECT_EQ(first.injected, second.injected);
  EXPECT_EQ(first.caught, second.caught);
  EXPECT_EQ(first.ready, second.ready);
  EXPECT_EQ(first.puts_acknowledged, second.puts_acknowledged);
}

TEST(ChaosPlan, RunsWithAnyActionLeftOut) {
  Plan plan = draw_plan(5, {});
  for (size_t keep = 2; keep <= 4; ++keep) {
    Plan shorter = plan;
    size_t at = 0;
    std::erase_if(shorter.actions, [&](const Action&) { return at++ % keep == 0; });
    for (const Finding& finding : run_plan(shorter).findings) ADD_FAILURE() << finding;
  }
}

TEST(ChaosPlan, KindsThatAreNotAskedForDoNotHappen) {
  PlanOptions options;
  options.kinds.fill(false);
  options.kinds[kind_of(fault::FaultKind::kTorn)] = true;
  options.kinds[kind_of(Disturbance::kLinksCut)] = true;
  KindCounts injected{};
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    const RunResult run = run_plan(draw_plan(seed, options));
    for (Kind kind = 0; kind < kKinds; ++kind) injected[kind] += run.injected[kind];
  }
  for (Kind kind = 0; kind < kKinds; ++kind) {
    EXPECT_EQ(injected[kind] > 0, options.kinds[kind]) << kind_name(kind);
  }
}

TEST(ChaosPlan, PutsAreOfSeveralPagesAndOfOneKeyTwiceToo) {
  size_t single = 0;
  size_t several = 0;
  size_t twice = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    for (const Action& action : draw_plan(seed, {}).actions) {
      const auto* put = std::get_if<PutPages>(&action.what);
      if (put == nullptr) continue;
      EXPECT_LE(put->keys.size(), 4u);
      (put->keys.size() == 1 ? single : several) += 1;
      if (put->keys.size() > 1 && put->keys[0] == put->keys[1]) ++twice;
    }
  }
  EXPECT_GT(single, 100u);
  EXPECT_GT(several, 50u);
  EXPECT_GT(twice, 20u);
}

// One run in four has nodes that keep headers and payloads apart; where pools are kept, none has.
TEST(ChaosPlan, SomeNodesKeepHeadersAndPayloadsApart) {
  size_t apart = 0;
  size_t mixed = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    PlanOptions options;
    options.nodes = 3;
    const uint64_t nodes = draw_plan(seed, options).cluster.nodes_apart;
    EXPECT_LE(nodes, 3u);
    apart += nodes > 0 ? 1 : 0;
    mixed += nodes > 0 && nodes < 3 ? 1 : 0;
    options.keep_pools = true;
    EXPECT_EQ(draw_plan(seed, options).cluster.nodes_apart, 0u);
  }
  EXPECT_EQ(apart, 10u);
  EXPECT_GT(mixed, 2u);
}

TEST(ChaosKinds, NamesLeadBackToTheirKinds) {
  for (Kind kind = 0; kind < kKinds; ++kind) {
    std::array<bool, kKinds> only{};
    only[kind] = true;
    EXPECT_EQ(choose_kinds(kKindNames, {std::string(kind_name(kind))}).value(), only);
  }
  EXPECT_EQ(choose_kinds(kKindNames, {}).value(), PlanOptions::all_kinds());
  EXPECT_FALSE(choose_kinds(kKindNames, {"torn", "weather"}));
}

}  // namespace
}  // namespace farpage::chaos
