#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <optional>

#include "sim/fault/fault_fabric.h"
#include "sim/sim_engine.h"
#include "tests/support/seeds.h"
#include "tests/tier/landing_watch.h"
#include "tests/tier/push/checked_pushes.h"

namespace farpage {
namespace {

using fault::FaultKind;

constexpr uint64_t kPageBytes = 512;
constexpr uint64_t kLongNs = 5 * kSecond;

struct Totals {
  CheckedPushes::Counts pushes;
  uint64_t places_used_again = 0;
  uint64_t landings_ended = 0;
  uint64_t runs = 0;
  uint64_t flipped_at_rest = 0;
  std::array<uint64_t, fault::kFaultKinds> injected{};
};

// A whole history from a seed.
class History {
 public:
  History(uint64_t seed, Totals& totals)
      : random_(seed), totals_(totals), options_(draw()), cluster_(seed, options_) {}

  void run() {
    set_gentle();
    writer_ =
        std::make_unique<SimEngine>(cluster_.world(), cluster_.connect(0, client_options()).value(),
                                    truth_, findings_, kPageBytes);
    watch_ = std::make_unique<LandingWatch>(
        cluster_.client_fabric(1), fleet_.dialer(fleet_.list.members[0].node),
        options_.node.page_bytes + sizeof(PageHeader), findings_);
    client_ = Client::connect(client_options(), cluster_.client_fabric(1).runtime(),
                              watch_->fabric(), watch_->dialer())
                  .value();
    places_ = static_cast<uint32_t>(between(1, 16));
    const PushOptions lane = {places_, static_cast<uint32_t>(between(1, 5))};
    pushes_ = std::make_unique<CheckedPushes>(
        cluster_.world(), client_->open_push_lane(lane).value(), truth_, findings_, kPageBytes);
    for (uint64_t key = 0; key < keys_; ++key) {
      writer_->start_put({key}, 100 * kMillisecond);
    }
    live(100 * kMillisecond);
    network_ = draw_network();
    plan_ = draw_faults();
    set_harsh();
    for (int turn = 0; turn < 100 && findings_.empty(); ++turn) {
      act();
      live(below(4) == 0 ? between(0, 10 * kMillisecond) : between(0, 500 * kMicrosecond));
    }
    settle();
    add_injected();
    totals_.pushes.add(pushes_->counts());
    totals_.landings_ended += pushes_->stats().landings_ended;
    totals_.places_used_again += watch_->used_again();
    pushes_.reset();
    client_.reset();
    writer_.reset();
    for (const Finding& finding : findings_.all()) ADD_FAILURE() << finding;
  }

 private:
  uint64_t below(uint64_t bound) { return random_.random_below(bound); }
  uint64_t between(uint64_t least, uint64_t most) { return random_.random_between(least, most); }
  bool chance(double probability) { return random_.chance(probability); }

  static ClientOptions client_options() {
    ClientOptions options;
    options.connect_ms = 500;  // also what a hello on a link that is silent costs
    options.staging_bytes = 64 * kKiB;
    return options;
  }

  SimClusterOptions draw() {
    SimClusterOptions options;
    options.clients = 2;
    options.node.page_bytes = kPageBytes;
    options.node.pool_bytes = between(3, 16) * (kPageBytes + sizeof(PageHeader));
    options.node.reuse_ms = between(1, 3);
    options.node.lease_ms = between(10, 60);
    options.node.evict = chance(0.8);
    options.wrap_node = [this](size_t, sim::SimFabric& own) {
      auto faulty = std::make_unique<fault::FaultFabric>(own, random_.clock(), random_.random());
      faulty_ = faulty.get();
      ++totals_.runs;
      return faulty;
    };
    keys_ = between(2, 20);
    return options;
  }
  sim::SimOptions draw_network() {
    const uint64_t reuse_ns = options_.node.reuse_ms * kMillisecond;
    sim::SimOptions network;
    network.delay_max_ns =
        chance(0.2) ? between(reuse_ns / 4, 2 * reuse_ns) : between(5, 100) * kMicrosecond;
    network.late_max_ns = between(1, 20) * kMillisecond;
    if (chance(0.5)) network.loss = 0.02 * static_cast<double>(below(100)) / 100;
    if (chance(0.5)) network.reorder = 0.5;
    if (chance(0.7)) network.tear = 0.7;
    if (chance(0.2)) network.fail = 0.003;
    if (chance(0.3)) network.offload_max_ns = between(1, 10) * kMillisecond;
    return network;
  }
  // Up to three kinds of what can meet a write, up to one in twenty each.
  fault::FaultPlan draw_faults() {
    static constexpr FaultKind kOfWrites[] = {FaultKind::kFlippedWrite, FaultKind::kLate,
                                              FaultKind::kLost,         FaultKind::kDuplicated,
                                              FaultKind::kReordered,    FaultKind::kFailed};
    fault::FaultPlan plan;
    plan.late_max_ns = between(1, 20) * kMillisecond;
    plan.reorder_max_ns = between(1, 500) * kMicrosecond;
    for (uint64_t kinds = below(4); kinds > 0; --kinds) {
      plan.of(kOfWrites[below(std::size(kOfWrites))]) =
          0.05 * static_cast<double>(below(100)) / 100;
    }
    return plan;
  }

  // A tenth are over before they begin, or hardly later; the others have up to 10 ms.
  uint64_t draw_patience() {
    if (chance(0.1)) return below(20) * kMicrosecond;
    return chance(0.5) ? between(20 * kMicrosecond, kMillisecond)
                       : between(kMillisecond, 10 * kMillisecond);
  }
  uint64_t draw_keep() { return chance(0.7) ? 0 : between(0, 5 * kMillisecond); }

  void act() {
    const uint64_t choice = below(100);
    if (choice < 50) {
      std::vector<uint64_t> keys(between(1, chance(0.2) ? places_ : (places_ + 2) / 3));
      for (uint64_t& key : keys) key = below(keys_);
      std::optional<Version> beyond;
      if (chance(0.2)) beyond = below(2);
      return pushes_->start(keys, draw_patience(), draw_keep(), beyond);
    }
    if (choice < 75) return writer_->start_put({below(keys_)}, between(kMillisecond, kSecond));
    if (choice < 82) return writer_->start_remove(below(keys_), draw_patience());
    if (choice < 86) return pushes_->drop_one(random_.random());
    if (choice < 90) return pushes_->take_places(random_.random(), draw_keep());
    disturb(choice);
  }

  void disturb(uint64_t choice) {
    if (choice < 93) {
      cluster_.node_fabric().pause();
      live(between(0, 20 * kMillisecond));
      cluster_.node_fabric().resume();
    } else if (choice < 95) {
      cluster_.end_node(static_cast<NodeEnd>(below(3)));
      add_injected();
      live(chance(0.5) ? 0 : between(0, 20 * kMillisecond));
      cluster_.start_node();
      set_harsh();
    } else if (choice < 96) {
      cluster_.cut_links();
    } else if (choice < 97) {
      cluster_.silence_links();
    } else if (choice < 98) {
      network_ = draw_network();
      set_harsh();
    } else {
      totals_.flipped_at_rest += faulty_->flip_at_rest().has_value();
    }
  }

  // Lets time pass, and every verdict be seen at the instant that it comes.
  void live(uint64_t duration_ns) {
    cluster_.world().wait_until(cluster_.now_ns() + duration_ns, [this] {
      writer_->observe();
      if (pushes_) pushes_->observe();
      watch_->look();
      return false;
    });
  }

  void set_harsh() {
    cluster_.node_fabric().set_options(network_);
    faulty_->set_plan(plan_);
  }
  void set_gentle() {
    cluster_.node_fabric().set_options({});
    faulty_->set_plan({});
  }
  // Of the node's run that there was.
  void add_injected() {
    for (size_t kind = 0; kind < fault::kFaultKinds; ++kind) {
      totals_.injected[kind] += faulty_->injected().of(static_cast<FaultKind>(kind));
    }
  }

  // With the faults off everything ends, and every page can be put and pushed again.
  void settle() {
    set_gentle();
    live(2 * kSecond);  // a lane whose completions are lost ends within a second
    EXPECT_TRUE(pushes_->idle() && writer_->idle()) << "something that does not end";
    EXPECT_TRUE(client_->reachable()) << "a client that found no way back";
    for (uint64_t key = 0; key < keys_ && findings_.empty(); ++key) {
      if (!options_.node.evict) {
        for (uint64_t each = 0; each < keys_; ++each) writer_->start_remove(each, kLongNs);
        live(50 * kMillisecond);
      }
      const PutResult put = writer_->put_now(key, kLongNs);
      ASSERT_EQ(put.code, Code::kOk) << code_name(put.code);
      // The first finds that its landing is stuck, or that the node has given it up.
      PageVerdict verdict;
      for (int look = 0; look < 3 && verdict.verdict != Verdict::kReady; ++look) {
        verdict = pushes_->push_now(key, kSecond);
        live(10 * kMillisecond);
      }
      EXPECT_EQ(verdict.verdict, Verdict::kReady) << reason_name(verdict.reason);
      EXPECT_EQ(verdict.version, put.version);
    }
    live(kSecond);
    EXPECT_TRUE(pushes_->idle());
  }

  sim::World random_;  // as a source of chance that does not disturb the cluster's
  Totals& totals_;
  uint64_t keys_ = 0;
  fault::FaultFabric* faulty_ = nullptr;  // of the node's run that there is
  SimClusterOptions options_;
  SimCluster cluster_;
  Fleet fleet_ = cluster_.fleet_for_client(1);
  sim::SimOptions network_;
  fault::FaultPlan plan_;
  uint32_t places_ = 0;
  Truth truth_;
  Findings findings_;
  std::unique_ptr<SimEngine> writer_;
  std::unique_ptr<LandingWatch> watch_;
  std::unique_ptr<Client> client_;
  std::unique_ptr<CheckedPushes> pushes_;
};

TEST(PushProperty, PromiseHoldsInEveryHistory) {
  const Seeds seeds = seeds_from_environment(150);
  Totals totals;
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    SCOPED_TRACE("FARPAGE_SEED=" + std::to_string(seed));
    History(seed, totals).run();
    if (HasFailure()) return;
  }
  std::printf(
      "%lu seeds from %lu: ready %lu, pushes dropped %lu, places used again %lu, "
      "landings ended %lu, runs of the node %lu\n",
      seeds.count, seeds.first, totals.pushes.ready, totals.pushes.dropped,
      totals.places_used_again, totals.landings_ended, totals.runs);
  std::printf("recompute:");
  for (size_t reason = 0; reason < kReasons; ++reason) {
    const std::string name(reason_name(static_cast<Reason>(reason)));
    std::printf(" %s %lu", name.c_str(), totals.pushes.recompute[reason]);
  }
  std::printf("\ninjected: %lu flipped at rest,", totals.flipped_at_rest);
  for (size_t kind = 0; kind < fault::kFaultKinds; ++kind) {
    if (totals.injected[kind] == 0) continue;
    std::printf(" %s %lu", std::string(fault::kFaultNames[kind]).c_str(), totals.injected[kind]);
  }
  std::printf("\n");
  if (seeds.chosen) return;
  EXPECT_GT(totals.pushes.ready, seeds.count);
  for (const Reason reason :
       {Reason::kMiss, Reason::kStale, Reason::kCorrupt, Reason::kStalled, Reason::kUnreachable}) {
    EXPECT_GT(totals.pushes.recompute[static_cast<size_t>(reason)], 0u) << reason_name(reason);
  }
  EXPECT_GT(totals.pushes.dropped, 0u);
  EXPECT_GT(totals.places_used_again, seeds.count);
  EXPECT_GT(totals.landings_ended, 0u);
  EXPECT_GT(totals.runs, seeds.count);
  EXPECT_GT(totals.flipped_at_rest, 0u);
  for (const FaultKind kind : {FaultKind::kFlippedWrite, FaultKind::kLate, FaultKind::kLost,
                               FaultKind::kDuplicated, FaultKind::kReordered, FaultKind::kFailed}) {
    EXPECT_GT(totals.injected[static_cast<size_t>(kind)], 0u) << fault::fault_name(kind);
  }
}

}  // namespace
}  // namespace farpage
