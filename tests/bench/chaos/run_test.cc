#include "bench/chaos/run.h"

#include <gtest/gtest.h>

namespace farpage::chaos {
namespace {

// A silence that outlasts the plan ends while the run is being judged, and the losses before it do
// not come back then.
TEST(ChaosRun, RegisterLosesNothingWhileARunIsJudged) {
  Plan plan;
  plan.seed = 1;
  plan.keys = 4;
  plan.cluster.clients = 2;
  plan.cluster.nodes = 3;
  plan.cluster.replicas = 2;
  plan.cluster.uses_register = true;
  plan.cluster.epochs.loss = 0.9;
  for (uint64_t key = 0; key < plan.keys; ++key) {
    plan.actions.push_back({0, PutPage{0, key, 5 * kSecond}});
  }
  plan.actions.push_back(
      {500 * kMillisecond, Disturb{Disturbance::kRegisterSilent, 3, 0, 100 * kMillisecond}});
  const RunResult run = run_plan(plan);
  for (const Finding& finding : run.findings) ADD_FAILURE() << finding;
  EXPECT_GE(run.ready, 2 * plan.cluster.clients) << "what is put at the end";
}

}  // namespace
}  // namespace farpage::chaos
