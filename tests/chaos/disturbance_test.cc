#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "chaos/ledger.h"
#include "sim/fault/fault_fabric.h"
#include "sim/sim_cluster.h"

// The effect of one disturbance on a cluster in which nothing else is wrong, and the ledger's
// account of it.
namespace farpage::chaos {
namespace {

constexpr uint64_t kLeaseNs = 20 * kMillisecond;
constexpr uint64_t kBeforeNs = 100 * kMillisecond;  // until puts are taken, too
constexpr uint64_t kForNs = 60 * kMillisecond;
constexpr uint64_t kAfterNs = 60 * kMillisecond;  // sooner than a node that has ended is left out
constexpr uint64_t kKeys = 12;
constexpr size_t kClients = 2;
constexpr size_t kNode = 0;  // that is disturbed, as client 0 is
constexpr size_t kNodes = 3;
constexpr size_t kClientHost = kNodes;  // of client 0
constexpr size_t kOtherClientHost = kNodes + 1;

// Two engines that fetch, put and remove all the time, with time enough and with none at all, and
// ask for what nobody has put.
class QuietWorld {
 public:
  QuietWorld() : cluster_(1, options()), ledger_(cluster_, truth_, kLeaseNs) {
    for (size_t client = 0; client < kClients; ++client) {
      fabrics_.push_back(std::make_unique<fault::FaultFabric>(cluster_.client_fabric(client),
                                                              cluster_.world().clock(), client));
      engines_.push_back(std::make_unique<SimEngine>(
          cluster_.world(), cluster_.connect(client, {}, fabrics_.back().get()).value(), truth_,
          findings_, cluster_page_bytes(), &ledger_));
      ledger_.add(*engines_.back());
    }
  }
  ~QuietWorld() {
    for (const Finding& finding : findings_.all()) ADD_FAILURE() << finding;
  }

  SimCluster& cluster() { return cluster_; }
  SimEngine& engine() { return *engines_[0]; }
  fault::FaultFabric& fabric() { return *fabrics_[0]; }
  Ledger& ledger() { return ledger_; }
  uint64_t caught(Disturbance kind) const { return ledger_.caught()[kind_of(kind)]; }

  void live(uint64_t for_ns) {
    for (const uint64_t end = cluster_.now_ns() + for_ns; cluster_.now_ns() < end; ++turn_) {
      for (auto& engine : engines_) {
        if (!engine->paused()) ask(*engine);
      }
      live_until(cluster_.world(), engines_, cluster_.now_ns() + kMillisecond / 2);
    }
  }

 private:
  static uint64_t cluster_page_bytes() { return small_sim_node().page_bytes; }
  static SimClusterOptions options() {
    SimClusterOptions options;
    options.clients = kClients;
    options.nodes = kNodes;
    options.uses_register = true;
    return options;
  }

  void ask(SimEngine& engine) {
    constexpr uint64_t kPatienceNs = 10 * kMillisecond;
    const uint64_t key = turn_ % kKeys;
    engine.start_fetch({key}, kPatienceNs, false);
    engine.start_fetch({kKeys}, kPatienceNs, false);
    engine.start_fetch({key}, 0, false);
    engine.start_put({key}, kPatienceNs);
    engine.start_remove(kKeys, 0);
    if (turn_ % 8 == 0) engine.start_remove(key, kPatienceNs);
  }

  SimCluster cluster_;
  Truth truth_;
  Findings findings_;
  Ledger ledger_;
  std::vector<std::unique_ptr<fault::FaultFabric>> fabrics_;
  SimEngines engines_;
  uint64_t turn_ = 0;
};

struct Case {
  Disturbance kind;
  Befallen whom;
  std::vector<Befallen> others;  // who have nothing of it
  std::function<void(QuietWorld&)> begin;
  std::function<void(QuietWorld&)> end = [](QuietWorld&) {};
  // Conditions that it needs to show, and does not make itself.
  std::function<void(QuietWorld&)> beside = [](QuietWorld&) {};
};

std::ostream& operator<<(std::ostream& out, const Case& each) {
  return out << kDisturbanceNames[static_cast<size_t>(each.kind)];
}

std::vector<Case> cases() {
  const Befallen node = {kNode, kNode};
  const Befallen client = {kClientHost, kClientHost};
  const Befallen both = {kClientHost, kNode};
  const size_t register_host = kNodes + kClients;
  const std::vector<Befallen> nodes = {{1, 1}, {2, 2}};
  const std::vector<Befallen> clients = {{kOtherClientHost, kOtherClientHost}};
  const std::vector<Befallen> pairs = {{kOtherClientHost, kNode}, {kClientHost, 1}, {kNode, 1}};
  const auto ends = [](NodeEnd end) {
    return [end](QuietWorld& world) { world.cluster().end_node(end, kNode); };
  };
  return {
      {Disturbance::kStopped, node, nodes, ends(NodeEnd::kStopped)},
      {Disturbance::kKilled, node, nodes, ends(NodeEnd::kKilled)},
      // A put whose bytes do not arrive keeps its engine's thread from the other nodes.
      {Disturbance::kPowerLost, node, {}, ends(NodeEnd::kPowerLost)},
      {Disturbance::kNodePaused, node, nodes,
       [](QuietWorld& world) { world.cluster().node_fabric(kNode).pause(); },
       [](QuietWorld& world) { world.cluster().node_fabric(kNode).resume(); }},
      {Disturbance::kClientPaused, client, clients,
       [](QuietWorld& world) {
         world.engine().pause();
         world.cluster().client_fabric(0).pause();
       },
       [](QuietWorld& world) {
         world.cluster().client_fabric(0).resume();
         world.engine().resume();
       }},
      {Disturbance::kPeersStopped, client, clients,
       [](QuietWorld& world) { world.fabric().stop_peers(); },
       [](QuietWorld& world) { world.fabric().resume_peers(); }},
      {Disturbance::kLinksCut, both, pairs,
       [](QuietWorld& world) { world.cluster().cut_links(kClientHost, kNode); }},
      {Disturbance::kLinksSilent, both, pairs,
       [](QuietWorld& world) { world.cluster().silence_links(kClientHost, kNode); }},
      {Disturbance::kParted, both, pairs,
       [](QuietWorld& world) { world.cluster().part(kClientHost, kNode); },
       [](QuietWorld& world) { world.cluster().heal(kClientHost, kNode); }},
      {Disturbance::kParted,
       {register_host, kNode},
       {{register_host, kClientHost}, {register_host, 1}},
       [](QuietWorld& world) { world.cluster().part(kNode, kNodes + kClients); },
       [](QuietWorld& world) { world.cluster().heal(kNode, kNodes + kClients); }},
      {Disturbance::kDialsRefused, client, clients,
       [](QuietWorld& world) { world.cluster().let_dial(0, false); },
       [](QuietWorld& world) { world.cluster().let_dial(0, true); },
       [](QuietWorld& world) { world.cluster().cut_links(kClientHost, kNode); }},
      {Disturbance::kRegisterSilent,
       client,
       {},
       [](QuietWorld& world) { world.cluster().epochs()->set_loss(1); },
       [](QuietWorld& world) { world.cluster().epochs()->set_loss(0); }},
      // Of a client nobody would notice: nodes tell it of the epoch.
      {Disturbance::kEpochUnread, node, nodes,
       [](QuietWorld& world) { world.cluster().epochs()->set_unread(kNode, true); },
       [](QuietWorld& world) { world.cluster().epochs()->set_unread(kNode, false); }},
  };
}

class EachDisturbance : public testing::TestWithParam<Case> {
 protected:
  // How often the ledger says that it was caught, if it is told that these were befallen by it.
  static uint64_t caught(const std::vector<Befallen>& told, bool has_effect) {
    const Case& each = GetParam();
    QuietWorld world;
    world.live(kBeforeNs);
    for (const Befallen& whom : told) world.ledger().disturbed(each.kind, whom, kForNs);
    if (has_effect) each.begin(world);
    each.beside(world);
    world.live(kForNs);
    if (has_effect) each.end(world);
    world.live(kAfterNs);
    return world.caught(each.kind);
  }
};

TEST_P(EachDisturbance, IsCaughtByItsEffect) {
  EXPECT_EQ(caught({GetParam().whom}, true), 1u);
}

TEST_P(EachDisturbance, IsNotCaughtWithoutItsEffect) {
  EXPECT_EQ(caught({GetParam().whom}, false), 0u);
}

class OnlyThoseBefallen : public EachDisturbance {};

TEST_P(OnlyThoseBefallen, CatchIt) {
  EXPECT_EQ(caught(GetParam().others, true), 0u);
}

std::string name(const testing::TestParamInfo<Case>& info) {
  const auto kind = static_cast<size_t>(info.param.kind);
  return std::string(kDisturbanceNames[kind]) + "_" + std::to_string(info.index);
}

std::vector<Case> cases_with_others() {
  auto all = cases();
  std::erase_if(all, [](const Case& each) { return each.others.empty(); });
  return all;
}

INSTANTIATE_TEST_SUITE_P(Chaos, EachDisturbance, testing::ValuesIn(cases()), name);
INSTANTIATE_TEST_SUITE_P(Chaos, OnlyThoseBefallen, testing::ValuesIn(cases_with_others()), name);

}  // namespace
}  // namespace farpage::chaos
