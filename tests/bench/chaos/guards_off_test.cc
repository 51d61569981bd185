#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "bench/chaos/run.h"
#include "pagetable/guards.h"

namespace farpage::chaos {
namespace {

using fault::FaultKind;

// Kinds that leave the bytes of pages alone: under these no CRC is needed, and without one, what
// keeps slots from being rewritten under a reader shows (I1).
std::array<bool, kKinds> kinds_without_damage() {
  auto kinds = PlanOptions::all_kinds();
  for (const FaultKind kind :
       {FaultKind::kFlippedHeader, FaultKind::kFlippedPayload, FaultKind::kFlippedAtRest,
        FaultKind::kTorn, FaultKind::kShort, FaultKind::kNothing, FaultKind::kStaleSlot}) {
    kinds[kind_of(kind)] = false;
  }
  return kinds;
}

// The first seed that shows something; 0: none of so many does.
uint64_t first_failure(const PlanOptions& options, uint64_t seeds, std::string& what) {
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    const RunResult run = run_plan(draw_plan(seed, options));
    if (run.findings.empty()) continue;
    what = testing::PrintToString(run.findings.front());
    return seed;
  }
  return 0;
}

#ifdef FARPAGE_GUARD_SWITCHES

struct Missed {
  const char* name;
  std::vector<Guard> off;
  bool damage;     // kinds that damage pages happen too
  uint64_t seeds;  // by which it is found
  uint64_t nodes = 1;
};

std::ostream& operator<<(std::ostream& out, const Missed& missed) {
  return out << missed.name;
}

class GuardsOff : public testing::TestWithParam<Missed> {};

TEST_P(GuardsOff, IsFound) {
  std::vector<std::unique_ptr<GuardOff>> off;
  for (const Guard guard : GetParam().off) off.push_back(std::make_unique<GuardOff>(guard));
  PlanOptions options;
  options.nodes = GetParam().nodes;
  options.replicas = std::min<uint64_t>(2, options.nodes);
  if (!GetParam().damage) options.kinds = kinds_without_damage();
  std::string what;
  const uint64_t seed = first_failure(options, GetParam().seeds, what);
  std::printf("%s: seed %lu, %s\n", GetParam().name, seed, what.c_str());
  EXPECT_GT(seed, 0u);
}

INSTANTIATE_TEST_SUITE_P(
    Chaos, GuardsOff,
    testing::Values(Missed{"live_word", {Guard::kLiveWord}, true, 20},
                    Missed{"live_word_before_ack", {Guard::kLiveWordBeforeAck}, true, 20},
                    Missed{"kill_on_free", {Guard::kKillOnFree}, true, 20},
                    Missed{"view_wait", {Guard::kViewWait}, true, 200},
                    Missed{"payload_crc", {Guard::kPayloadCrc}, true, 20},
                    Missed{"reuse_wait", {Guard::kReuseWait, Guard::kPayloadCrc}, false, 200},
                    Missed{"verdict_by_deadline", {Guard::kVerdictByDeadline}, true, 500},
                    Missed{"exact_header", {Guard::kExactHeader}, true, 20, 3},
                    Missed{"all_of_epoch", {Guard::kAllOfEpoch}, true, 20, 3},
                    Missed{"epoch_in_version", {Guard::kEpochInVersion}, true, 60, 3},
                    Missed{"hold_until_ended", {Guard::kHoldUntilEnded}, true, 60, 3},
                    Missed{"primary_lease", {Guard::kPrimaryLease}, true, 60, 3},
                    Missed{"view_checked",
                           {Guard::kViewCheckedAfterBegin, Guard::kViewCheckedAtCompletion},
                           true,
                           60,
                           3}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(GuardsOff, WithoutDamageNoCrcIsNeeded) {
  const GuardOff off(Guard::kPayloadCrc);
  PlanOptions options;
  options.kinds = kinds_without_damage();
  std::string what;
  EXPECT_EQ(first_failure(options, 60, what), 0u) << what;
}

#endif

TEST(ChaosRun, NothingIsFoundWithoutDamage) {
  PlanOptions options;
  options.kinds = kinds_without_damage();
  std::string what;
  EXPECT_EQ(first_failure(options, 20, what), 0u) << what;
}

}  // namespace
}  // namespace farpage::chaos
