#include <cstdio>

#include "pagetable/guards.h"
#include "tests/support/seeds.h"
#include "tests/tier/ahead/prefetching_engine.h"

namespace farpage {
namespace {

using fault::FaultKind;

constexpr uint64_t kPageBytes = 512;
constexpr uint64_t kLongNs = 5 * kSecond;

struct Totals {
  PrefetchingEngine::Counts demands;
  prefetch::PrefetchAccount pages;
  uint64_t outdated = 0;
  uint64_t given_up = 0;
  uint64_t forgotten = 0;
  uint64_t injected = 0;
};

// A whole history from a seed: an engine that demands what it and others expect, others that put
// and remove, and everything that can go wrong.
class PrefetchHistory {
 public:
  explicit PrefetchHistory(uint64_t seed)
      : random_(seed), options_(draw()), cluster_(seed, options_) {}

  std::vector<Finding> run(Totals& totals) {
    set_gentle();
    for (size_t host = 0; host < options_.clients; ++host) {
      faulty_.push_back(std::make_unique<fault::FaultFabric>(
          cluster_.client_fabric(host), cluster_.world().clock(), random_.random()));
      ClientOptions client;
      client.connect_ms = 60'000;
      auto connected = cluster_.connect(host, client, faulty_.back().get()).value();
      if (host == 0) {
        engine_ = std::make_unique<PrefetchingEngine>(cluster_.world(), std::move(connected),
                                                      truth_, findings_, kPageBytes, draw_lane());
      } else {
        writers_.push_back(std::make_unique<SimEngine>(cluster_.world(), std::move(connected),
                                                       truth_, findings_, kPageBytes));
      }
    }
    for (uint64_t key = 0; key < keys_; ++key) writers_[0]->start_put({key}, kLongNs);
    live(100 * kMillisecond);
    cluster_.set_network(options_.network);
    cluster_.set_control_delay(options_.control_min_ns, options_.control_max_ns);
    for (auto& fabric : faulty_) fabric->set_plan(draw_faults());
    for (int turn = 0; turn < 120 && findings_.empty(); ++turn) {
      act();
      live(below(4) == 0 ? between(0, 5 * kMillisecond) : between(0, 200 * kMicrosecond));
    }
    if (findings_.empty()) settle();
    add_to(totals);
    engine_.reset();
    writers_.clear();
    return findings_.all();
  }

 private:
  uint64_t below(uint64_t bound) { return random_.random_below(bound); }
  uint64_t between(uint64_t least, uint64_t most) { return random_.random_between(least, most); }
  bool chance(double probability) { return random_.chance(probability); }

  SimClusterOptions draw() {
    SimClusterOptions options;
    options.clients = 2;
    options.node.page_bytes = kPageBytes;
    keys_ = between(2, 20);
    options.node.pool_bytes = between(keys_ / 2 + 2, 60) * (kPageBytes + sizeof(PageHeader));
    options.node.reuse_ms = between(1, 3);
    options.node.lease_ms = between(10, 60);
    options.node.evict = true;
    options.network = draw_network(options.node.reuse_ms * kMillisecond);
    options.control_max_ns =
        chance(0.1) ? between(1, 30) * kMillisecond : between(20, 500) * kMicrosecond;
    return options;
  }

  sim::SimOptions draw_network(uint64_t reuse_ns) {
    sim::SimOptions network;
    if (chance(0.3)) return network;
    network.delay_max_ns =
        chance(0.2) ? between(reuse_ns / 4, 2 * reuse_ns) : between(5, 100) * kMicrosecond;
    network.late_max_ns = between(1, 20) * kMillisecond;
    if (chance(0.5)) network.loss = 0.03 * static_cast<double>(below(100)) / 100;
    if (chance(0.5)) network.reorder = 0.5;
    if (chance(0.7)) network.tear = 0.7;
    if (chance(0.2)) network.fail = 0.005;
    return network;
  }

  PrefetchOptions draw_lane() {
    PrefetchOptions options;
    options.landing_pages = static_cast<uint32_t>(between(1, 12));
    options.scheduler.most_waiting = static_cast<uint32_t>(between(1, 12));
    options.scheduler.most_under_way = static_cast<uint32_t>(between(1, 12));
    options.scheduler.useful_steps = between(0, 4);
    // So few that numbers are used again, or as many as there are pages.
    options.known_pages = options.landing_pages + options.scheduler.most_waiting +
                          static_cast<uint32_t>(chance(0.5) ? 1 : keys_);
    options.patience_ns =
        chance(0.2) ? between(50, 500) * kMicrosecond : between(1, 20) * kMillisecond;
    options.prefetch_pages = static_cast<uint32_t>(between(1, 12));
    if (chance(0.4)) options.push_group_pages = static_cast<uint32_t>(between(1, 6));
    return options;
  }

  fault::FaultPlan draw_faults() {
    fault::FaultPlan plan;
    plan.late_max_ns = between(1, 20) * kMillisecond;
    plan.reorder_max_ns = between(1, 500) * kMicrosecond;
    const uint64_t kinds = below(4);
    for (uint64_t i = 0; i < kinds; ++i) {
      plan.chance[below(fault::kFaultKinds)] = 0.1 * static_cast<double>(below(100)) / 100;
    }
    if (chance(0.1)) plan.delay_ns = below(kMillisecond);
    return plan;
  }

  uint64_t draw_patience() {
    if (chance(0.1)) return below(20) * kMicrosecond;
    return chance(0.5) ? between(20 * kMicrosecond, 2 * kMillisecond)
                       : between(kMillisecond, 30 * kMillisecond);
  }
  std::vector<uint64_t> draw_keys(uint64_t most) {
    std::vector<uint64_t> keys(between(1, most));
    for (uint64_t& key : keys) key = below(keys_ + 1);  // one that is never put
    return keys;
  }
  std::vector<PageKey> draw_page_keys(uint64_t most) {
    std::vector<PageKey> keys;
    for (const uint64_t number : draw_keys(most)) keys.push_back(sim_key(number));
    return keys;
  }

  void act() {
    const uint64_t choice = below(100);
    SimEngine& writer = *writers_[below(writers_.size())];
    if (choice < 30) return demand();
    if (choice < 55) return expect();
    if (choice < 62) {
      const auto keys = draw_page_keys(8);
      announced_ += keys.size();
      return engine_->lane().announce(keys);
    }
    if (choice < 66) return engine_->lane().withdraw(draw_page_keys(8));
    if (choice < 68) {
      const bool is_near = chance(0.3);
      return engine_->lane().set_near(draw_page_keys(4), is_near);
    }
    if (choice < 70) return engine_->drop_one();
    if (choice < 90) return put_some(writer);
    if (choice < 93) {
      const uint64_t key = below(keys_);
      return writer.start_remove(key, draw_patience());
    }
    disturb(choice);
  }

  void demand() {
    const auto keys = draw_keys(chance(0.1) ? 40 : 6);
    const uint64_t patience_ns = draw_patience();
    const bool allow_cached = chance(0.3);
    engine_->start(keys, patience_ns, allow_cached, chance(0.2));
  }

  void put_some(SimEngine& writer) {
    std::vector<uint64_t> keys(between(1, 8));
    for (uint64_t& key : keys) key = below(keys_);
    writer.start_put(keys, draw_patience());
  }

  void expect() {
    auto& names = engine_->script().names;
    names.resize(below(20));
    for (auto& name : names) name = static_cast<uint32_t>(below(2 * keys_ + 4));
    std::vector<ObservedAccess> accesses;
    for (const PageKey& key : draw_page_keys(6)) accesses.push_back({.key = key, .step = step_});
    step_ += below(3);
    engine_->lane().observe(accesses);
  }

  void disturb(uint64_t choice) {
    if (choice < 96) {
      if (!cluster_.node_runs()) return;
      cluster_.node_fabric().pause();
      live(between(0, 40 * kMillisecond));
      cluster_.node_fabric().resume();
    } else if (choice < 97) {
      if (cluster_.node_runs()) cluster_.end_node(static_cast<NodeEnd>(below(3)));
      live(chance(0.5) ? 0 : between(0, 20 * kMillisecond));
      cluster_.start_node();
    } else if (choice < 99) {
      cluster_.cut_links();
    } else {
      cluster_.set_network(draw_network(options_.node.reuse_ms * kMillisecond));
    }
  }

  // Lets time pass, and everybody look at what comes at the instant that it comes.
  void live(uint64_t duration_ns) {
    cluster_.world().wait_until(cluster_.now_ns() + duration_ns, [this] {
      if (engine_ != nullptr) engine_->observe();
      for (auto& writer : writers_) writer->observe();
      return false;
    });
  }

  void set_gentle() {
    for (auto& fabric : faulty_) fabric->set_plan({});
    cluster_.set_network({});
    cluster_.set_control_delay(10 * kMicrosecond, 200 * kMicrosecond);
  }

  void unless(bool holds, std::string sentence) {
    if (!holds) findings_.add(FindingKind::kUnfinished, std::move(sentence));
  }

  // With the faults off everything ends, every page that was begun is accounted for, and pages come
  // again.
  void settle() {
    set_gentle();
    live(200 * kMillisecond);
    const bool has_ended = cluster_.world().wait_until(cluster_.now_ns() + kLongNs, [this] {
      engine_->observe();
      for (auto& writer : writers_) writer->observe();
      return engine_->idle() && writers_[0]->idle() && engine_->client().reachable() &&
             writers_[0]->client().reachable();
    });
    unless(has_ended, "something held, or a client that found no way back");
    for (uint64_t key = 0; key <= keys_; ++key) {
      for (uint64_t i = 0; i < announced_; ++i) engine_->lane().withdraw(std::vector{sim_key(key)});
      engine_->lane().set_near(std::vector{sim_key(key)}, false);
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
    for (uint64_t key = 0; key < keys_ && findings_.empty(); ++key) come_again(key);
    engine_->check_frames();
  }

  void come_again(uint64_t key) {
    unless(writers_[0]->put_now(key, kLongNs).code == Code::kOk, "a put that fails");
    const uint64_t ready = engine_->counts().ready;
    engine_->start({key}, kLongNs, false, true);
    live(20 * kMillisecond);
    unless(engine_->counts().ready == ready + 1, "a page that does not come");
  }

  void add_to(Totals& totals) {
    const PrefetchReport report = engine_->lane().report();
    totals.demands.ready += engine_->counts().ready;
    totals.demands.recompute += engine_->counts().recompute;
    totals.demands.lent += engine_->counts().lent;
    totals.demands.held += engine_->counts().held;
    totals.demands.cached += engine_->counts().cached;
    totals.pages.begun += report.pages.begun;
    totals.pages.timely += report.pages.timely;
    totals.pages.late += report.pages.late;
    totals.pages.unused += report.pages.unused;
    totals.pages.evicted += report.pages.evicted;
    totals.pages.failed += report.pages.failed;
    totals.pages.refused += report.pages.refused;
    totals.pages.cancelled += report.pages.cancelled;
    totals.pages.overtaken += report.pages.overtaken;
    totals.outdated += report.outdated;
    totals.given_up += report.given_up;
    totals.forgotten += report.forgotten_pages;
    for (size_t kind = 0; kind < fault::kFaultKinds; ++kind) {
      totals.injected += faulty_[0]->injected().of(static_cast<FaultKind>(kind));
    }
  }

  sim::World random_;  // as a source of chance that does not disturb the cluster's
  uint64_t keys_ = 0;
  uint64_t step_ = 1;
  uint64_t announced_ = 0;
  SimClusterOptions options_;
  SimCluster cluster_;
  std::vector<std::unique_ptr<fault::FaultFabric>> faulty_;  // by host
  Truth truth_;
  Findings findings_;
  std::unique_ptr<PrefetchingEngine> engine_;
  std::vector<std::unique_ptr<SimEngine>> writers_;
};

TEST(PrefetchProperty, PromiseHoldsInEveryHistory) {
  const Seeds seeds = seeds_from_environment(150);
  Totals totals;
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    const auto findings = PrefetchHistory(seed).run(totals);
    EXPECT_EQ(findings, std::vector<Finding>{}) << "FARPAGE_SEED=" << seed;
    if (!findings.empty()) return;
  }
  const auto& [demands, pages, outdated, given_up, forgotten, injected] = totals;
  std::printf("%lu seeds from %lu: ready %lu (lent %lu, cached %lu), recompute %lu, held %lu\n",
              seeds.count, seeds.first, demands.ready, demands.lent, demands.cached,
              demands.recompute, demands.held);
  std::printf(
      "begun %lu: timely %lu, late %lu, unused %lu, evicted %lu, failed %lu; outdated %lu, given "
      "up %lu, forgotten %lu; faults %lu\n",
      pages.begun, pages.timely, pages.late, pages.unused, pages.evicted, pages.failed, outdated,
      given_up, forgotten, injected);
  if (seeds.chosen) return;
  for (const uint64_t each :
       {demands.lent, demands.cached, demands.recompute, demands.held, pages.timely, pages.late,
        pages.unused, pages.evicted, pages.failed, pages.refused, pages.cancelled, pages.overtaken,
        outdated, given_up, forgotten, injected}) {
    EXPECT_GT(each, 0u);
  }
}

#ifdef FARPAGE_GUARD_SWITCHES

TEST(PrefetchProperty, WithoutTheHeaderReadAnOldCopyIsFound) {
  const GuardOff off(Guard::kHeaderRereadForLocal);
  Totals totals;
  for (uint64_t seed = 1; seed < 50; ++seed) {
    const auto findings = PrefetchHistory(seed).run(totals);
    if (findings.empty()) continue;
    EXPECT_EQ(findings.front().kind, FindingKind::kWentBack) << findings.front();
    return;
  }
  FAIL() << "nothing found";
}

#endif

}  // namespace
}  // namespace farpage
