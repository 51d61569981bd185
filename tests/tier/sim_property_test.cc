#include <gtest/gtest.h>

#include <cstdio>

#include "sim/fault/fault_fabric.h"
#include "sim/sim_engine.h"
#include "tests/support/seeds.h"

namespace farpage {
namespace {

using fault::FaultKind;

constexpr uint64_t kPageBytes = 512;
constexpr uint64_t kLongNs = 5 * kSecond;

struct Totals {
  uint64_t ready = 0;
  uint64_t recompute = 0;
  uint64_t held = 0;
  uint64_t puts = 0;
  uint64_t acknowledged = 0;
  uint64_t late = 0;
  uint64_t paths_ended = 0;
  uint64_t strays = 0;
  std::array<uint64_t, fault::kFaultKinds> injected{};
};

// A whole history from a seed.
class History {
 public:
  History(uint64_t seed, Totals& totals)
      : random_(seed), totals_(totals), options_(draw()), cluster_(seed, options_) {}

  void run() {
    set_gentle();
    for (size_t host = 0; host < options_.clients; ++host) {
      ClientOptions client;
      client.connect_ms = 60'000;
      faulty_.push_back(std::make_unique<fault::FaultFabric>(
          cluster_.client_fabric(host), cluster_.world().clock(), random_.random()));
      auto connected = cluster_.connect(host, client, faulty_.back().get());
      ASSERT_TRUE(connected) << connected.error().message;
      engines_.push_back(std::make_unique<SimEngine>(cluster_.world(), std::move(*connected),
                                                     truth_, findings_, kPageBytes));
    }
    for (uint64_t key = 0; key < keys_; key += 2) engines_[0]->start_put({key}, kLongNs);
    live(100 * kMillisecond);
    cluster_.set_network(options_.network);
    cluster_.set_control_delay(options_.control_min_ns, options_.control_max_ns);
    for (auto& fabric : faulty_) fabric->set_plan(draw_faults());
    for (int turn = 0; turn < 80 && findings_.empty(); ++turn) {
      act();
      live(below(4) == 0 ? between(0, 10 * kMillisecond) : between(0, 500 * kMicrosecond));
    }
    settle();
    for (auto& engine : engines_) add(*engine);
    for (auto& fabric : faulty_) add(*fabric);
    engines_.clear();
    for (const Finding& finding : findings_.all()) {
      ADD_FAILURE() << finding;
    }
  }

 private:
  uint64_t below(uint64_t bound) { return random_.random_below(bound); }
  uint64_t between(uint64_t least, uint64_t most) { return random_.random_between(least, most); }
  bool chance(double probability) { return random_.chance(probability); }

  SimClusterOptions draw() {
    SimClusterOptions options;
    options.clients = between(2, 3);
    options.node.page_bytes = kPageBytes;
    options.node.pool_bytes = between(3, 16) * (kPageBytes + sizeof(PageHeader));
    options.node.reuse_ms = between(1, 3);
    options.node.lease_ms = between(10, 60);
    options.node.evict = chance(0.8);
    keys_ = between(2, 20);
    const uint64_t reuse_ns = options.node.reuse_ms * kMillisecond;
    sim::SimOptions& network = options.network;
    network.delay_max_ns =
        chance(0.3) ? between(reuse_ns / 4, 2 * reuse_ns) : between(5, 100) * kMicrosecond;
    network.late_max_ns = between(1, 20) * kMillisecond;
    if (chance(0.5)) network.loss = 0.03 * static_cast<double>(below(100)) / 100;
    if (chance(0.5)) network.reorder = 0.5;
    if (chance(0.7)) network.tear = 0.7;
    if (chance(0.2)) network.fail = 0.005;
    if (chance(0.3)) network.offload_max_ns = between(1, 40) * kMillisecond;
    options.control_max_ns =
        chance(0.1) ? between(1, 30) * kMillisecond : between(20, 500) * kMicrosecond;
    return options;
  }

  // Up to three kinds, up to one operation in ten each.
  fault::FaultPlan draw_faults() {
    fault::FaultPlan plan;
    plan.late_max_ns = between(1, 20) * kMillisecond;
    plan.reorder_max_ns = between(1, 500) * kMicrosecond;
    const uint64_t kinds = below(4);
    for (uint64_t i = 0; i < kinds; ++i) {
      plan.chance[below(fault::kFaultKinds)] = 0.1 * static_cast<double>(below(100)) / 100;
    }
    if (chance(0.1)) plan.delay_ns = below(kMillisecond);
    if (chance(0.1)) plan.bytes_per_s = between(1'000'000, 100'000'000);
    return plan;
  }

  // A tenth are over before they begin, or hardly later; the others have up to 30 ms.
  uint64_t draw_patience() {
    if (chance(0.1)) return below(20) * kMicrosecond;
    return chance(0.5) ? between(20 * kMicrosecond, 2 * kMillisecond)
                       : between(kMillisecond, 30 * kMillisecond);
  }

  void act() {
    SimEngine& engine = *engines_[below(engines_.size())];
    const uint64_t choice = below(100);
    if (choice < 50) {
      std::vector<uint64_t> keys(chance(0.1) ? 40 : between(1, 6));
      for (uint64_t& key : keys) key = below(keys_);
      return engine.start_fetch(keys, draw_patience(), chance(0.2));
    }
    if (choice < 80) return engine.start_put({below(keys_)}, draw_patience());
    if (choice < 88) return engine.start_remove(below(keys_), draw_patience());
    if (choice < 91) return engine.check_contains(below(keys_), draw_patience());
    disturb(choice);
  }

  void disturb(uint64_t choice) {
    if (choice < 94) {
      if (!cluster_.node_runs()) return;
      cluster_.node_fabric().pause();
      live(between(0, 40 * kMillisecond));
      cluster_.node_fabric().resume();
    } else if (choice < 97) {
      if (cluster_.node_runs()) cluster_.end_node(static_cast<NodeEnd>(below(3)));
      live(chance(0.5) ? 0 : between(0, 20 * kMillisecond));
      cluster_.start_node();
      // One client finds it later than the others, and reads on under its old view.
      const size_t last = below(engines_.size());
      cluster_.let_dial(last, false);
      cluster_.world().after(between(0, 60 * kMillisecond),
                             [this, last] { cluster_.let_dial(last, true); });
    } else if (choice < 99) {
      cluster_.cut_links();
    } else {
      cluster_.set_network(draw().network);
    }
  }

  // Lets time pass, and every engine look at what comes at the instant that it comes.
  void live(uint64_t duration_ns) {
    cluster_.world().wait_until(cluster_.now_ns() + duration_ns, [this] {
      for (auto& engine : engines_) engine->observe();
      return false;
    });
  }

  // No client opens a lane where the node's answers take longer than a lease lasts.
  void set_gentle() {
    for (auto& fabric : faulty_) fabric->set_plan({});
    cluster_.set_network({});
    cluster_.set_control_delay(10 * kMicrosecond, 200 * kMicrosecond);
  }

  // With the faults off everything ends, and every page can be put and fetched again.
  void settle() {
    set_gentle();
    live(200 * kMillisecond);
    const bool ended = cluster_.world().wait_until(cluster_.now_ns() + kLongNs, [this] {
      bool idle = true;
      for (auto& engine : engines_) {
        engine->observe();
        idle &= engine->idle() && engine->client().reachable();
      }
      return idle;
    });
    EXPECT_TRUE(ended) << "something held, or a client that found no way back";
    live(100 * kMillisecond);
    for (auto& engine : engines_) engine->check_frames();
    for (uint64_t key = 0; key < keys_ && findings_.empty(); ++key) {
      SimEngine& writer = *engines_[below(engines_.size())];
      if (!options_.node.evict) {
        for (uint64_t each = 0; each < keys_; ++each) writer.start_remove(each, kLongNs);
        live(50 * kMillisecond);
      }
      const PutResult put = writer.put_now(key, kLongNs);
      ASSERT_EQ(put.code, Code::kOk) << code_name(put.code);
      for (auto& engine : engines_) {
        const PageVerdict verdict = engine->fetch_now(key, kLongNs);
        EXPECT_EQ(verdict.verdict, Verdict::kReady) << reason_name(verdict.reason);
        EXPECT_EQ(verdict.version, put.version);
      }
    }
    live(kLongNs);
    for (auto& engine : engines_) {
      EXPECT_TRUE(engine->idle());
      engine->check_frames();
      EXPECT_EQ(engine->lane_stats().late_verdicts, 0u) << engine->lane_stats().latest_ns;
    }
  }

  void add(const SimEngine& engine) {
    totals_.ready += engine.counts().ready;
    totals_.recompute += engine.counts().recompute;
    totals_.held += engine.counts().held;
    totals_.puts += engine.counts().puts;
    totals_.acknowledged += engine.counts().puts_acknowledged;
    totals_.late = std::max(totals_.late, engine.lane_stats().latest_ns);
    totals_.paths_ended += engine.lane_stats().channels_ended;
    totals_.strays += engine.lane_stats().strays;
  }
  void add(const fault::FaultFabric& fabric) {
    for (size_t kind = 0; kind < fault::kFaultKinds; ++kind) {
      totals_.injected[kind] += fabric.injected().of(static_cast<FaultKind>(kind));
    }
  }

  sim::World random_;  // as a source of chance that does not disturb the cluster's
  Totals& totals_;
  uint64_t keys_ = 0;
  SimClusterOptions options_;
  SimCluster cluster_;
  std::vector<std::unique_ptr<fault::FaultFabric>> faulty_;  // by host
  Truth truth_;
  Findings findings_;
  std::vector<std::unique_ptr<SimEngine>> engines_;
};

TEST(TierProperty, PromiseHoldsInEveryHistory) {
  const Seeds seeds = seeds_from_environment(150);
  Totals totals;
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    SCOPED_TRACE("FARPAGE_SEED=" + std::to_string(seed));
    History(seed, totals).run();
    if (HasFailure()) return;
  }
  std::printf(
      "%lu seeds from %lu: ready %lu, recompute %lu, held %lu, puts %lu (acknowledged %lu), paths "
      "ended %lu, latest verdict %lu ns after its deadline\n",
      seeds.count, seeds.first, totals.ready, totals.recompute, totals.held, totals.puts,
      totals.acknowledged, totals.paths_ended, totals.late);
  std::printf("injected:");
  for (size_t kind = 0; kind < fault::kFaultKinds; ++kind) {
    std::printf(" %s %lu", std::string(fault::kFaultNames[kind]).c_str(), totals.injected[kind]);
  }
  std::printf("; completions that came again %lu\n", totals.strays);
  if (seeds.chosen) return;
  EXPECT_GT(totals.ready, seeds.count);
  EXPECT_GT(totals.strays, 0u);
  for (size_t kind = 0; kind < fault::kFaultKinds; ++kind) {
    const bool by_itself = static_cast<FaultKind>(kind) != FaultKind::kFlippedAtRest;
    EXPECT_TRUE(!by_itself || totals.injected[kind] > 0) << fault::kFaultNames[kind];
  }
}

}  // namespace
}  // namespace farpage
