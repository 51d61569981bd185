// Histories in which checks of payloads last, end in any order, fail, and find little room.
#include "tests/support/sim_history.h"
#include "tests/tier/fetch/checks/late_checkers.h"

namespace farpage {
namespace {

class LateCheckHistory final : public SimHistory {
 public:
  LateCheckHistory(uint64_t seed, Tally& tally)
      : SimHistory(seed, tally, [](sim::Draws& draws) {
          SimClusterOptions options = draw_cluster(draws, draws.between(16, 64));
          options.clients = draws.between(1, 2);
          options.nodes = draws.between(1, 3);
          options.replicas = options.nodes == 1 ? 1 : 2;
          options.uses_register = draws.chance(0.5);
          return options;
        }) {
    turns_ = 120;
    turn_ns_ = 300 * kMicrosecond;
    client_options_.checkers = &checkers_;
    draw_checks();
  }

 private:
  // How the checker is, until it is drawn again.
  void draw_checks() {
    const uint64_t most_polls = uint64_t{1} << draws_.below(7);
    const double failing = draws_.chance(0.3) ? 0.1 : 0;
    checkers_.room = draws_.chance(0.3) ? draws_.between(1, 8) : SIZE_MAX;
    checkers_.polls = [this, most_polls] {
      const auto polls = static_cast<uint32_t>(draws_.below(most_polls));
      late_ += polls > 0 ? 1 : 0;
      return polls;
    };
    checkers_.answer = [this, failing](const PayloadCheck&) -> std::optional<CheckEnd::Outcome> {
      if (draws_.chance(failing)) return CheckEnd::Outcome::kFailed;
      return std::nullopt;
    };
  }

  void act() override {
    SimEngine& engine = any_engine();
    const uint64_t choice = draws_.below(100);
    if (choice < 60) return fetch(engine);
    if (choice < 80) return put(engine);
    if (choice < 84) return remove(engine);
    if (choice < 90) return engine.cancel_last_fetch();
    if (choice < 93) return draw_checks();
    disturb();
  }

  void end() override {
    checkers_.answer = [](const PayloadCheck&) { return std::nullopt; };
  }

  void close() override {
    unless(checkers_.disturbed == 0, "bytes changed where a check looked");
    unless(checkers_.shared == 0, "two checks at one place");
    unless(checkers_.under_way == 0, "a check that has not ended");
  }

  void count() override {
    tally_["checks"] += checkers_.begun;
    tally_["checks that took a while"] += late_;
  }

  LateCheckers checkers_;
  uint64_t late_ = 0;
};

TEST(LateCheckProperty, PromiseHoldsInEveryHistory) {
  expect_promise_holds<LateCheckHistory>(100, {{"ready", 1000},
                                               {"recompute", 1000},
                                               {"held", 500},
                                               {"hedged"},
                                               {"cancelled"},
                                               {"checks that took a while", 8700}});
}

#ifdef FARPAGE_GUARD_SWITCHES

TEST(LateCheckProperty, WhereAReadMayEndLaterALateLandingIsFound) {
  expect_found_without<LateCheckHistory>({Guard::kHoldUntilEnded}, FindingKind::kLateLandings, 100);
}

#endif

}  // namespace
}  // namespace farpage
