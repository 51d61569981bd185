// Histories from a seed in which checks of payloads last, end in any order, fail, and find little
// room, while nodes stop, epochs change and the network loses what it carries. Whether a page is
// what it says its contents tell, and no checksum.
#include <gtest/gtest.h>

#include <cstdio>

#include "sim/fault/fault_fabric.h"
#include "sim/sim_engine.h"
#include "tests/support/seeds.h"
#include "tests/tier/fetch/late_checkers.h"

namespace farpage {
namespace {

constexpr uint64_t kPageBytes = 512;
constexpr uint64_t kLongNs = 5 * kSecond;

struct Totals {
  uint64_t ready = 0;
  uint64_t recompute = 0;
  uint64_t held = 0;
  uint64_t hedged = 0;
  uint64_t cancelled = 0;
  uint64_t begun = 0;
  uint64_t late = 0;  // checks that did not end in the turn in which they began
};

class History {
 public:
  History(uint64_t seed, Totals& totals)
      : random_(seed), totals_(totals), options_(draw()), cluster_(seed, options_) {}

  void run() {
    ClientOptions client;
    client.connect_ms = 60'000;
    client.checkers = &checkers_;
    draw_checks();
    for (size_t host = 0; host < options_.clients; ++host) {
      faulty_.push_back(std::make_unique<fault::FaultFabric>(
          cluster_.client_fabric(host), cluster_.world().clock(), random_.random()));
      auto connected = cluster_.connect(host, client, faulty_.back().get());
      ASSERT_TRUE(connected) << connected.error().message;
      engines_.push_back(std::make_unique<SimEngine>(cluster_.world(), std::move(*connected),
                                                     truth_, findings_, kPageBytes));
    }
    live(300 * kMillisecond);  // every node has been dialled
    for (uint64_t key = 0; key < kKeys; ++key) engines_[0]->start_put({key}, kLongNs);
    live(100 * kMillisecond);
    for (auto& fabric : faulty_) fabric->set_plan(draw_faults());
    for (int turn = 0; turn < 120 && findings_.empty(); ++turn) {
      act();
      live(chance(0.2) ? between(0, 5 * kMillisecond) : between(0, 300 * kMicrosecond));
    }
    settle();
    for (auto& engine : engines_) add(*engine);
    engines_.clear();
    EXPECT_EQ(checkers_.disturbed, 0u) << "bytes changed where a check looked";
    EXPECT_EQ(checkers_.shared, 0u) << "two checks at one place";
    EXPECT_EQ(checkers_.under_way, 0u);
    totals_.begun += checkers_.begun;
    totals_.late += late_;
    for (const Finding& finding : findings_.all()) ADD_FAILURE() << finding;
  }

 private:
  static constexpr uint64_t kKeys = 24;

  uint64_t below(uint64_t bound) { return random_.random_below(bound); }
  uint64_t between(uint64_t least, uint64_t most) { return random_.random_between(least, most); }
  bool chance(double probability) { return random_.chance(probability); }

  SimClusterOptions draw() {
    SimClusterOptions options;
    options.clients = between(1, 2);
    options.nodes = between(1, 3);
    options.replicas = options.nodes == 1 ? 1 : 2;
    options.uses_register = chance(0.5);
    options.node.page_bytes = kPageBytes;
    options.node.pool_bytes = between(16, 64) * (kPageBytes + sizeof(PageHeader));
    options.node.reuse_ms = between(1, 5);
    options.node.lease_ms = between(20, 60);
    options.network.delay_max_ns = between(5, 60) * kMicrosecond;
    options.network.reorder = chance(0.5) ? 1 : 0;
    if (chance(0.5)) options.network.tear = 0.5;
    if (chance(0.3)) options.network.loss = 0.01;
    options.network.late_max_ns = between(1, 10) * kMillisecond;
    return options;
  }
  // How the checker is, as long as it is drawn no more.
  void draw_checks() {
    const uint64_t most_polls = uint64_t{1} << below(7);
    const double failing = chance(0.3) ? 0.1 : 0;
    checkers_.room = chance(0.3) ? between(1, 8) : SIZE_MAX;
    checkers_.polls = [this, most_polls] {
      const auto polls = static_cast<uint32_t>(below(most_polls));
      late_ += polls > 0 ? 1 : 0;
      return polls;
    };
    checkers_.answer = [this, failing](const PayloadCheck&) -> std::optional<CheckEnd::Outcome> {
      if (chance(failing)) return CheckEnd::Outcome::kFailed;
      return std::nullopt;
    };
  }
  fault::FaultPlan draw_faults() {
    fault::FaultPlan plan;
    plan.late_max_ns = between(1, 10) * kMillisecond;
    plan.reorder_max_ns = between(1, 200) * kMicrosecond;
    for (uint64_t kinds = below(4); kinds > 0; --kinds) {
      plan.chance[below(fault::kFaultKinds)] = 0.1 * static_cast<double>(below(100)) / 100;
    }
    return plan;
  }

  void act() {
    SimEngine& engine = *engines_[below(engines_.size())];
    const uint64_t choice = below(100);
    if (choice < 60) {
      std::vector<uint64_t> keys(chance(0.1) ? 60 : between(1, 6));
      for (uint64_t& key : keys) key = below(kKeys);
      return engine.start_fetch(keys, between(20 * kMicrosecond, 8 * kMillisecond), chance(0.2));
    }
    if (choice < 80) return engine.start_put({below(kKeys)}, 30 * kMillisecond);
    if (choice < 84) return engine.start_remove(below(kKeys), 30 * kMillisecond);
    if (choice < 90) return engine.cancel_last_fetch();
    if (choice < 93) return draw_checks();
    if (choice < 96) return cluster_.cut_links();
    const size_t node = below(cluster_.nodes());
    if (!cluster_.node_runs(node)) return cluster_.start_node(node);
    cluster_.end_node(static_cast<NodeEnd>(below(3)), node);
    live(between(0, 20 * kMillisecond));
    cluster_.start_node(node);
  }

  // Lets time pass, and every engine look at what comes at the instant that it comes.
  void live(uint64_t duration_ns) {
    cluster_.world().wait_until(cluster_.now_ns() + duration_ns, [this] {
      for (auto& engine : engines_) engine->observe();
      return false;
    });
  }

  // With the faults off everything ends, the last check included.
  void settle() {
    for (auto& fabric : faulty_) fabric->set_plan({});
    cluster_.set_network({});
    const bool ended = cluster_.world().wait_until(cluster_.now_ns() + 4 * kLongNs, [this] {
      bool idle = true;
      for (auto& engine : engines_) {
        engine->observe();
        idle &= engine->idle();
      }
      return idle;
    });
    EXPECT_TRUE(ended) << "something is held for good";
    live(100 * kMillisecond);
    for (auto& engine : engines_) {
      engine->check_frames();
      EXPECT_EQ(engine->lane_stats().late_verdicts, 0u) << engine->lane_stats().latest_ns;
    }
  }

  void add(const SimEngine& engine) {
    totals_.ready += engine.counts().ready;
    totals_.recompute += engine.counts().recompute;
    totals_.held += engine.counts().held;
    totals_.hedged += engine.counts().hedged;
    totals_.cancelled += engine.counts().cancelled;
  }

  sim::World random_;  // as a source of chance that does not disturb the cluster's
  Totals& totals_;
  SimClusterOptions options_;
  LateCheckers checkers_;
  uint64_t late_ = 0;
  SimCluster cluster_;
  std::vector<std::unique_ptr<fault::FaultFabric>> faulty_;  // by host
  Truth truth_;
  Findings findings_;
  std::vector<std::unique_ptr<SimEngine>> engines_;
};

TEST(LateCheckProperty, PromiseHoldsInEveryHistory) {
  const Seeds seeds = seeds_from_environment(100);
  Totals totals;
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    SCOPED_TRACE("FARPAGE_SEED=" + std::to_string(seed));
    History(seed, totals).run();
    if (HasFailure()) return;
  }
  std::printf(
      "%lu seeds from %lu: ready %lu, recompute %lu, held %lu, hedged %lu, let go %lu; checks %lu, "
      "of which late %lu\n",
      seeds.count, seeds.first, totals.ready, totals.recompute, totals.held, totals.hedged,
      totals.cancelled, totals.begun, totals.late);
  if (seeds.chosen) return;
  EXPECT_GT(totals.ready, 10 * seeds.count);
  EXPECT_GT(totals.recompute, seeds.count);
  EXPECT_GT(totals.held, seeds.count);
  EXPECT_GT(totals.cancelled, 0u);
  EXPECT_GT(totals.late, totals.begun / 2);
}

}  // namespace
}  // namespace farpage
