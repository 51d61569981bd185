#include "lab/scale/holdings_cost.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "control/codec.h"
#include "integrity/crc32c.h"
#include "lab/scale/cpu_time.h"
#include "lab/scale/placement_sample.h"
#include "node/fleet/holdings.h"
#include "sim/network/sim_fabric.h"
#include "sim/network/world.h"

namespace farpage {
namespace {

constexpr uint64_t kPageBytes = 64;
constexpr uint64_t kViewNs = 2 * kSecond;

// A register whose epoch the bench gives.
class GivenEpoch final : public EpochRegister {
 public:
  GivenEpoch(Runtime& runtime, Epoch first) : current{std::move(first), {}}, runtime_(runtime) {}

  void read(std::function<void(Result<RegisteredEpoch>)> done) override {
    runtime_.after(0, [this, done = std::move(done)] { done(current); });
  }
  void replace(uint64_t, Epoch, std::function<void(Result<void>)> done) override {
    runtime_.after(0, [done = std::move(done)] { done(fail(Code::kAborted, "it is given")); });
  }
  void confirm(NodeId node, uint64_t, std::function<void(Result<void>)> done) override {
    current.confirmed.push_back(node);
    runtime_.after(0, [done = std::move(done)] { done({}); });
  }

  RegisteredEpoch current;

 private:
  Runtime& runtime_;
};

// The parts of one member that enter epochs and tell what it holds.
class AskedNode {
 public:
  AskedNode(uint64_t nodes, uint64_t replicas, uint64_t pages, uint64_t seed)
      : world_(seed), epochs_(machine_.runtime(), scale_epoch(nodes, replicas, kPageBytes, seed)) {
    fleet_.epochs = &epochs_;
    fleet_.view_ns = kViewNs;
    const uint64_t slots = pages + pages / 8 + kSpareSlots;
    const Geometry geometry =
        make_geometry(kPageBytes, slots * (kPageBytes + sizeof(PageHeader))).value();
    store_ =
        PageStore::create({geometry, 1, kMillisecond, true}, machine_, machine_.runtime().clock())
            .value();
    node_.emplace(machine_.runtime(), fleet_, epochs_.current.epoch.members[0], kPageBytes,
                  NodeEpoch::Hooks{[this] {
                                     foreign_->begin_epoch();
                                     holdings_->begin_epoch();
                                   },
                                   [] {}});
    foreign_.emplace(machine_.runtime(), *store_, *node_, kViewNs, [this] { node_->killed(); });
    holdings_.emplace(machine_.runtime(), *store_, *node_, *foreign_);
    node_->start();
    run_for(kViewNs);
    put(pages, seed);
  }

  uint64_t pages() const { return store_->slots().live_count(); }
  void lose_a_member() {
    ++epochs_.current.epoch.number;
    epochs_.current.epoch.members.pop_back();
    epochs_.current.confirmed.clear();
    node_->look();
    run_for(kViewNs);
    FARPAGE_CHECK(node_->epoch().number == epochs_.current.epoch.number);
  }

  struct Round {
    uint64_t walk_ns = 0;
    uint64_t told = 0;
    uint64_t tell_ns = 0;
    uint64_t empty_answers = 0;
    uint64_t empty_answers_ns = 0;
  };
  // All others ask, and again when the walk is over, each until it was told all.
  Round tell_all(uint64_t since) {
    Round round;
    const uint64_t session = ++sessions_;
    std::vector<uint64_t> cursors;
    for (size_t other = 1; other < node_->epoch().members.size(); ++other) {
      cursors.push_back(ask(other, session, 0, since, round).next);
    }
    const uint64_t from_ns = thread_cpu_ns();
    run_for((store_->slots().size() / kSlotsOfATurnAtLeast + 2) * kMillisecond);
    round.walk_ns = thread_cpu_ns() - from_ns;
    for (size_t other = 1; other < node_->epoch().members.size(); ++other) {
      for (uint64_t cursor = cursors[other - 1]; cursor != 0;) {
        const HoldingsReply reply = ask(other, session, cursor, since, round);
        FARPAGE_CHECK(!reply.looking);
        cursor = reply.next;
      }
    }
    return round;
  }

 private:
  static constexpr uint64_t kSpareSlots = 64;
  static constexpr uint64_t kSlotsOfATurnAtLeast = 1024;

  void run_for(uint64_t time_ns) { world_.run_until(world_.now_ns() + time_ns); }

  void put(uint64_t pages, uint64_t seed) {
    Random random(seed);
    const std::vector<std::byte> payload(kPageBytes);
    const uint32_t crc = crc32c(0, payload.data(), payload.size());
    for (uint64_t version = 1; store_->slots().live_count() < pages;) {
      const uint64_t low = random.next();
      const PageKey key = {low, random.next()};
      if (!node_->holds(key)) continue;
      FARPAGE_CHECK(store_->put(key, make_version(1, version++), payload, crc) == Code::kOk);
    }
  }

  HoldingsReply ask(size_t other, ClientId session, uint64_t cursor, uint64_t since, Round& round) {
    const NodeId node = node_->epoch().members[other].node;
    const uint64_t from_ns = thread_cpu_ns();
    NumberedReply reply = {1, holdings_->answer(session, node, {node_->tag(), {}, cursor, since})};
    auto told = std::get<HoldingsReply>(reply.reply);
    (void)encode(std::move(reply));
    const uint64_t took_ns = thread_cpu_ns() - from_ns;
    round.told += told.pages.size();
    (told.pages.empty() ? round.empty_answers_ns : round.tell_ns) += took_ns;
    round.empty_answers += told.pages.empty() ? 1 : 0;
    return told;
  }

  sim::World world_;
  sim::SimFabric machine_{world_, {}};
  GivenEpoch epochs_;
  Fleet fleet_;
  std::unique_ptr<PageStore> store_;
  std::optional<NodeEpoch> node_;
  std::optional<ForeignPages> foreign_;
  std::optional<Holdings> holdings_;
  ClientId sessions_ = 0;
};

}  // namespace

HoldingsCost measure_holdings(uint64_t nodes, uint64_t replicas, uint64_t pages, uint64_t tries,
                              uint64_t seed) {
  AskedNode asked(nodes, replicas, pages, seed);
  HoldingsCost cost;
  cost.pages = asked.pages();
  cost.walk_ns = cost.walk_whole_ns = cost.tell_ns = cost.answers_ns = kNever;
  asked.lose_a_member();
  constexpr uint64_t kEpochBefore = 1;
  for (uint64_t i = 0; i < tries; ++i) {
    const AskedNode::Round all = asked.tell_all(0);
    cost.walk_ns = std::min(cost.walk_ns, all.walk_ns);
    cost.told = all.told;
    cost.tell_ns = std::min(cost.tell_ns, all.tell_ns);
    const AskedNode::Round whole = asked.tell_all(kEpochBefore);
    cost.walk_whole_ns = std::min(cost.walk_whole_ns, whole.walk_ns);
    cost.told_whole = whole.told;
    cost.answers = whole.empty_answers;
    cost.answers_ns = std::min(cost.answers_ns, whole.empty_answers_ns);
  }
  return cost;
}

}  // namespace farpage
