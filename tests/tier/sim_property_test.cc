#include "tests/support/sim_history.h"

namespace farpage {
namespace {

class TierHistory final : public SimHistory {
 public:
  TierHistory(uint64_t seed, Tally& tally)
      : SimHistory(seed, tally, [](sim::Draws& draws) {
          SimClusterOptions options = draw_cluster(draws, draws.between(3, 16));
          options.clients = draws.between(2, 3);
          return options;
        }) {}

 private:
  void act() override {
    SimEngine& engine = any_engine();
    const uint64_t choice = draws_.below(100);
    if (choice < 50) return fetch(engine);
    if (choice < 80) return put(engine);
    if (choice < 88) return remove(engine);
    if (choice < 91) return engine.check_contains(any_key(), draws_.patience_ns());
    disturb();
  }
};

TEST(TierProperty, PromiseHoldsInEveryHistory) {
  expect_promise_holds<TierHistory>(
      150, {{"ready", 1500},    {"recompute"},         {"held"},          {"acknowledged puts"},
            {"paths ended"},    {"stray completions"}, {"restarts", 100}, {"flipped at rest"},
            {"flipped_header"}, {"flipped_payload"},   {"flipped_write"}, {"torn"},
            {"short"},          {"nothing"},           {"stale_slot"},    {"late"},
            {"lost"},           {"duplicated"},        {"reordered"},     {"failed"}});
}

#ifdef FARPAGE_GUARD_SWITCHES

TEST(TierProperty, WithoutAChecksumWrongBytesAreFound) {
  expect_found_without<TierHistory>({Guard::kPayloadCrc}, FindingKind::kWrongBytes, 50);
}

TEST(TierProperty, WithoutTheLiveWordAnOldPageIsFound) {
  expect_found_without<TierHistory>({Guard::kLiveWord}, FindingKind::kWentBack, 150);
}

#endif

}  // namespace
}  // namespace farpage
