#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "pagetable/guards.h"
#include "sim/draws.h"
#include "sim/fault/fault_fabric.h"
#include "sim/sim_cluster.h"
#include "sim/sim_engine.h"
#include "tests/support/seeds.h"

namespace farpage {

// What a test's histories have come across, by name: all of them together must show that what is
// attacked has been there.
using Tally = std::map<std::string, uint64_t, std::less<>>;

// A history from a seed, of a cluster in virtual time: engines put, fetch and remove pages while
// whatever can go wrong does; then nothing goes wrong any more, and everything must end, and every
// page can be put and had again. What must never be goes to the findings. A test adds what it opens
// besides, and what it does with it.
class SimHistory {
 public:
  virtual ~SimHistory() = default;

  // Once. What went wrong; nothing: the promise held.
  std::vector<Finding> run();

 protected:
  static constexpr uint64_t kLongNs = 5 * kSecond;

  // `draw` draws the cluster, mostly by draw_cluster(). The tally outlives it.
  SimHistory(uint64_t seed, Tally& tally,
             const std::function<SimClusterOptions(sim::Draws& draws)>& draw);
  // One node with so many slots, and two clients, under any network.
  static SimClusterOptions draw_cluster(sim::Draws& draws, uint64_t slots);

  // What the test opens at the hosts that have no SimEngine.
  virtual void open() {}
  // One turn: something that somebody does, or that befalls somebody.
  virtual void act() = 0;
  // Looks at what has come; between every two events.
  virtual void observe() {}
  virtual bool idle() { return true; }
  // After everything has ended.
  virtual void end() {}
  // A page that was put without faults, of that version, can be had.
  virtual void have(uint64_t key, Version version);
  // Adds to the tally: before everything settles, so that it tells what the attacks left.
  virtual void count() {}
  // Closes what the test opened; the engines are there no more.
  virtual void close() {}

  std::unique_ptr<Client> connect(size_t client);
  SimEngine& any_engine() { return *engines_[draws_.below(engines_.size())]; }
  uint64_t any_key() { return draws_.below(keys_); }
  void fetch(SimEngine& engine) {
    engine.start_fetch(draws_.numbers(draws_.chance(0.1) ? 40 : draws_.between(1, 6), keys_),
                       draws_.patience_ns(), draws_.chance(0.2));
  }
  void put(SimEngine& engine, uint64_t most_pages = 1) {
    engine.start_put(draws_.numbers(draws_.between(1, most_pages), keys_), draws_.patience_ns());
  }
  void remove(SimEngine& engine) { engine.start_remove(any_key(), draws_.patience_ns()); }
  // What befalls a node, or what joins it to the others.
  void disturb();

  // Lets time pass, and everybody look at what comes at the instant that it comes.
  void live(uint64_t duration_ns) {
    live_until(duration_ns, [] { return false; });
  }
  void unless(bool holds, std::string sentence) {
    if (!holds) findings_.add(FindingKind::kUnfinished, std::move(sentence));
  }

 private:
  SimClusterOptions wrapped(SimClusterOptions options);
  bool live_until(uint64_t duration_ns, const std::function<bool()>& ready);
  bool all_ended();
  void set_harsh();
  void set_gentle();
  void settle();
  void restart(size_t node);
  void remove_all(SimEngine& engine);
  PutResult put_again(SimEngine& writer, uint64_t key);
  void add(const SimEngine& engine);
  void add(const fault::FaultFabric& faulty);

  std::vector<fault::FaultFabric*> node_faults_;      // of the run that there is now
  std::vector<fault::FaultFabric*> all_node_faults_;  // of all runs: the cluster keeps them
  std::vector<fault::FaultPlan> node_plans_;          // of the next runs, too

 protected:
  sim::Draws draws_;
  Tally& tally_;
  SimClusterOptions options_;
  const uint64_t keys_;
  ClientOptions client_options_;
  size_t engine_hosts_ = SIZE_MAX;  // so many of the clients, the first ones, have a SimEngine
  int turns_ = 100;
  uint64_t turn_ns_ = 500 * kMicrosecond;  // up to so long; a fourth of them 20 times as long
  SimCluster cluster_;
  std::vector<std::unique_ptr<fault::FaultFabric>> client_faults_;
  Truth truth_;
  Findings findings_;
  std::vector<std::unique_ptr<SimEngine>> engines_;
};

// To standard output.
void tell(const Seeds& seeds, const Tally& tally);

struct Floor {
  std::string_view name;
  uint64_t at_least = 1;
};

// Nothing is found in the first `count` histories, or in those that the environment names; and the
// first ones together come across all that is named, so often.
template <typename History>
void expect_promise_holds(uint64_t count, std::initializer_list<Floor> come_across) {
  const Seeds seeds = seeds_from_environment(count);
  Tally tally;
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    const std::vector<Finding> findings = History(seed, tally).run();
    EXPECT_EQ(findings, std::vector<Finding>{}) << "FARPAGE_SEED=" << seed;
    if (testing::Test::HasFailure()) return;
  }
  tell(seeds, tally);
  if (seeds.chosen) return;
  for (const Floor& floor : come_across) {
    EXPECT_GE(tally[std::string(floor.name)], floor.at_least) << floor.name;
  }
}

#ifdef FARPAGE_GUARD_SWITCHES

// One of so many histories finds that the guards are off, and finds this.
template <typename History>
void expect_found_without(std::initializer_list<Guard> guards, FindingKind kind, uint64_t count) {
  std::vector<std::unique_ptr<GuardOff>> off;
  for (const Guard guard : guards) off.push_back(std::make_unique<GuardOff>(guard));
  Tally tally;
  for (uint64_t seed = 1; seed <= count; ++seed) {
    const std::vector<Finding> findings = History(seed, tally).run();
    if (findings.empty()) continue;
    EXPECT_EQ(findings.front().kind, kind) << findings.front() << ", FARPAGE_SEED=" << seed;
    return;
  }
  FAIL() << "nothing found in " << count << " histories";
}

#endif

}  // namespace farpage
