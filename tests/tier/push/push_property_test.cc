#include <fmt/format.h>

#include <memory>
#include <optional>

#include "tests/support/sim_history.h"
#include "tests/tier/landing_watch.h"
#include "tests/tier/push/checked_pushes.h"

namespace farpage {
namespace {

// One client puts and removes, and fetches now and then; pages are pushed to another.
class PushHistory final : public SimHistory {
 public:
  PushHistory(uint64_t seed, Tally& tally)
      : SimHistory(seed, tally,
                   [](sim::Draws& draws) { return draw_cluster(draws, draws.between(3, 16)); }) {
    engine_hosts_ = 1;
  }

 private:
  void open() override {
    client_ = Client::connect(client_options_, cluster_.client_fabric(1).runtime(),
                              watch_->fabric(), watch_->dialer())
                  .value();
    const PushOptions lane = {places_, static_cast<uint32_t>(draws_.between(1, 5))};
    pushes_ =
        std::make_unique<CheckedPushes>(cluster_.world(), client_->open_push_lane(lane).value(),
                                        truth_, findings_, options_.node.page_bytes);
  }

  void act() override {
    SimEngine& writer = any_engine();
    const uint64_t choice = draws_.below(100);
    if (choice < 50) return push();
    if (choice < 71) return put(writer);
    if (choice < 75) return fetch(writer);
    if (choice < 82) return remove(writer);
    if (choice < 86) return pushes_->drop_one(draws_.next());
    if (choice < 90) return pushes_->take_places(draws_.next(), draw_keep_ns());
    disturb();
  }
  void push() {
    const uint64_t most = draws_.chance(0.2) ? places_ : (places_ + 2) / 3;
    std::optional<Version> beyond;
    if (draws_.chance(0.2)) beyond = draws_.below(2);
    pushes_->start(draws_.numbers(draws_.between(1, most), keys_), draws_.patience_ns(),
                   draw_keep_ns(), beyond);
  }
  uint64_t draw_keep_ns() { return draws_.chance(0.7) ? 0 : draws_.between(0, 5 * kMillisecond); }

  void observe() override {
    pushes_->observe();
    watch_->look();
  }
  bool idle() override { return pushes_->idle() && client_->reachable(); }

  void have(uint64_t key, Version version) override {
    // The first finds that its landing is stuck, or that the node has given it up.
    PageVerdict verdict;
    for (int look = 0; look < 3 && verdict.verdict != Verdict::kReady; ++look) {
      verdict = pushes_->push_now(key, kSecond);
      live(10 * kMillisecond);
    }
    unless(verdict.verdict == Verdict::kReady && verdict.version == version,
           fmt::format("what was put is not pushed: {}", reason_name(verdict.reason)));
    SimHistory::have(key, version);
  }

  void count() override {
    const CheckedPushes::Counts& counts = pushes_->counts();
    tally_["pushed"] += counts.ready;
    for (size_t reason = 0; reason < kReasons; ++reason) {
      tally_[fmt::format("pushes {}", reason_name(static_cast<Reason>(reason)))] +=
          counts.recompute[reason];
    }
    tally_["pushes dropped"] += counts.dropped;
    tally_["landings ended"] += pushes_->stats().landings_ended;
    tally_["places used again"] += watch_->used_again();
  }

  void close() override {
    pushes_.reset();
    client_.reset();
  }

  Fleet fleet_ = cluster_.fleet_for_client(1);
  const uint32_t places_ = static_cast<uint32_t>(draws_.between(1, 16));
  std::unique_ptr<LandingWatch> watch_ = std::make_unique<LandingWatch>(
      cluster_.client_fabric(1), fleet_.dialer(fleet_.list.members[0].node),
      options_.node.page_bytes + sizeof(PageHeader), findings_);
  std::unique_ptr<Client> client_;
  std::unique_ptr<CheckedPushes> pushes_;
};

TEST(PushProperty, PromiseHoldsInEveryHistory) {
  expect_promise_holds<PushHistory>(150, {{"pushed", 300},
                                          {"pushes miss"},
                                          {"pushes stale"},
                                          {"pushes corrupt"},
                                          {"pushes stalled"},
                                          {"pushes unreachable"},
                                          {"pushes dropped"},
                                          {"places used again", 1000},
                                          {"landings ended"},
                                          {"restarts", 100},
                                          {"flipped at rest"},
                                          {"flipped_write"},
                                          {"late"},
                                          {"lost"},
                                          {"duplicated"},
                                          {"reordered"},
                                          {"failed"}});
}

#ifdef FARPAGE_GUARD_SWITCHES

TEST(PushProperty, WithoutTheEndByInvalidationALateLandingIsFound) {
  expect_found_without<PushHistory>({Guard::kPushEndedByInvalidation}, FindingKind::kLateLandings,
                                    150);
}

#endif

}  // namespace
}  // namespace farpage
