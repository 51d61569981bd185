#include "tests/support/sim_history.h"
#include "tests/tier/ahead/prefetching_engine.h"

namespace farpage {
namespace {

// An engine demands what it and others expect; another client puts and removes.
class PrefetchHistory final : public SimHistory {
 public:
  PrefetchHistory(uint64_t seed, Tally& tally)
      : SimHistory(seed, tally, [](sim::Draws& draws) {
          SimClusterOptions options = draw_cluster(draws, draws.between(12, 60));
          options.node.evict = true;
          return options;
        }) {
    engine_hosts_ = 1;
    turns_ = 120;
    turn_ns_ = 200 * kMicrosecond;
  }

 private:
  void open() override {
    engine_ = std::make_unique<PrefetchingEngine>(cluster_.world(), connect(1), truth_, findings_,
                                                  options_.node.page_bytes, draw_lane());
  }
  PrefetchOptions draw_lane() {
    const auto pages = [this] { return static_cast<uint32_t>(draws_.between(1, 12)); };
    PrefetchOptions options;
    options.landing_pages = pages();
    options.scheduler.most_waiting = pages();
    options.scheduler.most_under_way = pages();
    options.scheduler.useful_steps = draws_.between(0, 4);
    // So few that numbers are used again, or as many as there are pages.
    options.known_pages = options.landing_pages + options.scheduler.most_waiting +
                          static_cast<uint32_t>(draws_.chance(0.5) ? 1 : keys_);
    options.patience_ns = draws_.chance(0.2) ? draws_.between(50, 500) * kMicrosecond
                                             : draws_.between(1, 20) * kMillisecond;
    options.prefetch_pages = pages();
    if (draws_.chance(0.4)) {
      options.push_group_pages = static_cast<uint32_t>(draws_.between(1, 6));
    }
    return options;
  }

  std::vector<uint64_t> draw_keys(uint64_t most) {
    return draws_.numbers(draws_.between(1, most), keys_ + 1);  // one that is never put
  }
  std::vector<PageKey> draw_page_keys(uint64_t most) {
    std::vector<PageKey> keys;
    for (const uint64_t number : draw_keys(most)) keys.push_back(sim_key(number));
    return keys;
  }

  void act() override {
    const uint64_t choice = draws_.below(100);
    if (choice < 30) return demand();
    if (choice < 55) return expect();
    if (choice < 62) return announce();
    if (choice < 66) return engine_->lane().withdraw(draw_page_keys(8));
    if (choice < 68) return engine_->lane().set_near(draw_page_keys(4), draws_.chance(0.3));
    if (choice < 70) return engine_->drop_one();
    if (choice < 90) return put(any_engine(), 8);
    if (choice < 93) return remove(any_engine());
    disturb();
  }
  void demand() {
    const auto keys = draw_keys(draws_.chance(0.1) ? 40 : 6);
    const bool allow_cached = draws_.chance(0.3);
    engine_->start(keys, draws_.patience_ns(), allow_cached, draws_.chance(0.2));
  }
  void expect() {
    auto& names = engine_->script().names;
    names.resize(draws_.below(20));
    for (auto& name : names) name = static_cast<uint32_t>(draws_.below(2 * keys_ + 4));
    std::vector<ObservedAccess> accesses;
    for (const PageKey& key : draw_page_keys(6)) accesses.push_back({.key = key, .step = step_});
    step_ += draws_.below(3);
    engine_->lane().observe(accesses);
  }
  void announce() {
    const auto keys = draw_page_keys(8);
    announced_ += keys.size();
    engine_->lane().announce(keys);
  }

  void observe() override { engine_->observe(); }
  bool idle() override { return engine_->idle() && engine_->client().reachable(); }

  // Every page that was begun is accounted for.
  void end() override {
    for (uint64_t key = 0; key <= keys_; ++key) {
      const std::vector<PageKey> page = {sim_key(key)};
      for (uint64_t i = 0; i < announced_; ++i) engine_->lane().withdraw(page);
      engine_->lane().set_near(page, false);
    }
    engine_->script().names.clear();
    engine_->lane().observe(std::vector{ObservedAccess{.key = sim_key(0), .step = step_ + 100}});
    live(kLongNs);
    const PrefetchReport report = engine_->lane().report();
    unless(report.under_way + report.here + report.waiting + report.taken_places == 0,
           "something is under way, here, or has a place: " + engine_->lane().status());
    const prefetch::PrefetchAccount& pages = report.pages;
    unless(pages.begun == pages.useful() + pages.unused + pages.evicted + pages.failed &&
               pages.asked == pages.begun + pages.cancelled + pages.overtaken,
           "not every page is accounted for: " + engine_->lane().status());
    engine_->check_frames();
  }

  void have(uint64_t key, Version) override {
    const uint64_t ready = engine_->counts().ready;
    engine_->start({key}, kLongNs, false, true);
    live(20 * kMillisecond);
    unless(engine_->counts().ready == ready + 1, "a page that does not come");
  }

  void count() override {
    const auto& demands = engine_->counts();
    tally_["demands ready"] += demands.ready;
    tally_["demands recompute"] += demands.recompute;
    tally_["demands held"] += demands.held;
    tally_["lent"] += demands.lent;
    tally_["cached"] += demands.cached;
    const PrefetchReport report = engine_->lane().report();
    tally_["begun"] += report.pages.begun;
    tally_["timely"] += report.pages.timely;
    tally_["came late"] += report.pages.late;
    tally_["unused"] += report.pages.unused;
    tally_["evicted"] += report.pages.evicted;
    tally_["never came"] += report.pages.failed;
    tally_["refused"] += report.pages.refused;
    tally_["withdrawn"] += report.pages.cancelled;
    tally_["overtaken"] += report.pages.overtaken;
    tally_["outdated"] += report.outdated;
    tally_["given up"] += report.given_up;
    tally_["forgotten"] += report.forgotten_pages;
  }

  void close() override {
    engine_->check_frames();
    engine_.reset();
  }

  uint64_t step_ = 1;
  uint64_t announced_ = 0;
  std::unique_ptr<PrefetchingEngine> engine_;
};

TEST(PrefetchProperty, PromiseHoldsInEveryHistory) {
  expect_promise_holds<PrefetchHistory>(150, {{"demands ready", 1000},
                                              {"demands recompute"},
                                              {"demands held"},
                                              {"lent"},
                                              {"cached"},
                                              {"timely"},
                                              {"came late"},
                                              {"unused"},
                                              {"evicted"},
                                              {"never came"},
                                              {"refused"},
                                              {"withdrawn"},
                                              {"overtaken"},
                                              {"outdated"},
                                              {"given up"},
                                              {"forgotten"},
                                              {"late"},
                                              {"lost"},
                                              {"failed"}});
}

#ifdef FARPAGE_GUARD_SWITCHES

TEST(PrefetchProperty, WithoutTheHeaderReadAnOldCopyIsFound) {
  expect_found_without<PrefetchHistory>({Guard::kHeaderRereadForLocal}, FindingKind::kWentBack, 50);
}

#endif

}  // namespace
}  // namespace farpage
