#include "chaos/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/random.h"

namespace farpage::chaos {
namespace {

using fault::FaultKind;

constexpr uint64_t kPageBytes = 512;
constexpr uint64_t kPutPatienceNs = 5 * kSecond;
constexpr uint64_t kFillNs = 20 * kMillisecond;
constexpr uint64_t kTurns = 200;

class Draw {
 public:
  Draw(uint64_t seed, const PlanOptions& options) : random_(seed), options_(options) {}

  Plan plan(uint64_t seed) {
    Plan plan;
    plan.seed = seed;
    plan.cluster = cluster();
    plan.cluster.keep_pools = options_.keep_pools;
    // One run in four, with one node or several; of the seed, so that nothing else depends on it.
    if (seed % 4 == 3 && !options_.keep_pools) {
      plan.cluster.nodes_apart = 1 + seed / 4 % options_.nodes;
    }
    plan.keys = keys_ = between(2, tight_ ? 5 : 20);
    for (uint64_t key = 0; key < keys_; key += 2) {
      plan.actions.push_back({0, PutPages{0, {key}, kPutPatienceNs}});
    }
    uint64_t now = kFillNs;
    plan.actions.push_back({now, ChangeNetwork{network_}});
    for (size_t host = 0; host < hosts(); ++host) {
      plan.actions.push_back({now, SpoilOperations{host, faults()}});
    }
    for (uint64_t turn = 0; turn < kTurns; ++turn) {
      const Action drawn = {now, action()};
      plan.actions.push_back(drawn);
      add_late_client(drawn);
      if (restless_) add_company(drawn);
      if (tight_ && chance(0.1)) add_crowd(now);
      if (restless_ && chance(0.02)) add_epoch_that_passes_by(now);
      const uint64_t longest = (restless_ ? 30 : 10) * kMillisecond;
      now += chance(0.25) ? between(0, longest) : between(0, 500 * kMicrosecond);
    }
    std::erase_if(company_, [now](const Action& action) { return action.at_ns > now; });
    plan.actions.insert(plan.actions.end(), company_.begin(), company_.end());
    std::ranges::stable_sort(plan.actions, {}, &Action::at_ns);
    return plan;
  }

 private:
  uint64_t below(uint64_t bound) { return random_.below(bound); }
  uint64_t between(uint64_t least, uint64_t most) { return least + below(most - least + 1); }
  bool chance(double probability) { return random_.unit() < probability; }
  size_t hosts() const { return options_.nodes + options_.clients; }
  bool may(Kind kind) const { return options_.kinds[kind]; }

  // Where a node has ended, one client often finds its next run later than the others do, and reads
  // on under the view that it has.
  void add_late_client(const Action& drawn) {
    const auto* end = std::get_if<EndNode>(&drawn.what);
    if (end == nullptr || !may(kind_of(Disturbance::kDialsRefused)) || !chance(0.7)) return;
    company_.push_back(
        {drawn.at_ns, Disturb{Disturbance::kDialsRefused, options_.nodes + below(options_.clients),
                              end->node, between(0, 60 * kMillisecond)}});
  }

  // To pass an epoch by, several things must happen at about one time: a node that ends again soon
  // after it came back, another that reads of neither, two hosts that hear of no epoch.
  void add_company(const Action& drawn) {
    if (const auto* end = std::get_if<EndNode>(&drawn.what)) add_to_end(drawn.at_ns, *end);
    const auto* disturb = std::get_if<Disturb>(&drawn.what);
    if (disturb != nullptr && disturb->kind == Disturbance::kParted && disturb->host == hosts()) {
      Disturb other = *disturb;
      other.other = below(hosts());
      other.for_ns = between(0, 120 * kMillisecond);
      company_.push_back({drawn.at_ns, other});
    }
  }

  void add_to_end(uint64_t at_ns, const EndNode& end) {
    const uint64_t back_ns = at_ns + end.down_ns;
    if (chance(0.5)) add_puts_that_meet(at_ns);
    if (may(kind_of(Disturbance::kKilled)) && chance(0.5)) {
      const uint64_t down_ns =
          chance(0.5) ? between(0, kMillisecond) : between(0, 80 * kMillisecond);
      company_.push_back(
          {back_ns + between(10, 50) * kMillisecond, EndNode{end.node, NodeEnd::kKilled, down_ns}});
    }
    if (may(kind_of(Disturbance::kEpochUnread)) && chance(0.5)) {
      const size_t other = (end.node + 1 + below(options_.nodes - 1)) % options_.nodes;
      const uint64_t from_ns = back_ns - std::min(back_ns, between(0, 10 * kMillisecond));
      company_.push_back({from_ns, Disturb{Disturbance::kEpochUnread, options_.nodes, other,
                                           between(20, 120) * kMillisecond}});
    }
  }

  // Puts of several pages meet the end of a node when they are half begun: one key comes twice, so
  // that all behind it waits for a replica which does not answer any more. There is time for them
  // to be sent again in the next epoch, and what has begun is fetched before and after.
  void add_puts_that_meet(uint64_t end_ns) {
    const uint64_t opens_ns = detect_ns_ + 2 * lease_ns_;
    for (uint64_t puts = between(1, 3); puts > 0; --puts) {
      const uint64_t key = below(keys_);
      const auto any_client = [this] { return below(options_.clients); };
      company_.push_back(
          {end_ns - std::min(end_ns, below(400 * kMicrosecond)),
           PutPages{
               any_client(), {key, key, below(keys_)}, opens_ns + between(5, 40) * kMillisecond}});
      for (uint64_t fetches = 3; fetches > 0; --fetches) {
        company_.push_back({end_ns + below(opens_ns + 40 * kMillisecond),
                            FetchPages{any_client(), {key}, 5 * kMillisecond, false}});
      }
    }
  }

  // One key is fetched and put by many, with little time, while other puts want the slots: reads
  // that last as long as slots cool meet the rewriting, and a put that was given up is still on its
  // way.
  void add_crowd(uint64_t now_ns) {
    const uint64_t key = below(keys_);
    for (uint64_t left = between(4, 12); left > 0; --left) {
      const uint64_t put = chance(0.5) ? key : below(keys_);
      std::vector<uint64_t> keys = {put};
      if (chance(0.2)) keys.push_back(chance(0.5) ? put : below(keys_));
      company_.push_back({now_ns + below(reuse_ns_ / 2),
                          FetchPages{below(options_.clients), {key}, 8 * reuse_ns_, false}});
      company_.push_back(
          {now_ns + below(5 * reuse_ns_ / 2),
           PutPages{below(options_.clients), std::move(keys), below(2 * reuse_ns_)}});
      if (!chance(0.1)) continue;
      company_.push_back({now_ns + below(5 * reuse_ns_ / 2),
                          RemovePage{below(options_.clients), key, 4 * reuse_ns_}});
    }
  }

  // A node leaves, comes back, and leaves again, while another reads of none of it, and what they
  // hold is put anew in between and fetched afterwards.
  void add_epoch_that_passes_by(uint64_t now_ns) {
    const bool may_all =
        may(kind_of(Disturbance::kPowerLost)) && may(kind_of(Disturbance::kEpochUnread));
    if (!may_all) return;
    const size_t node = below(options_.nodes);
    const size_t other = (node + 1 + below(options_.nodes - 1)) % options_.nodes;
    const uint64_t out_ns = 2 * detect_ns_ + below(20 * kMillisecond);
    const uint64_t back_ns = now_ns + out_ns;
    const uint64_t gone_ns = back_ns + lease_ns_ + between(5, 30) * kMillisecond;
    const uint64_t left_ns = gone_ns + 2 * detect_ns_;
    company_.push_back({now_ns, EndNode{node, NodeEnd::kPowerLost, out_ns}});
    company_.push_back(
        {back_ns - below(2 * kMillisecond), Disturb{Disturbance::kEpochUnread, options_.nodes,
                                                    other, left_ns + 20 * kMillisecond - back_ns}});
    company_.push_back({gone_ns, EndNode{node, NodeEnd::kPowerLost, 4 * detect_ns_}});
    for (uint64_t key = 0; key < keys_; ++key) {
      const auto any_client = [this] { return below(options_.clients); };
      company_.push_back({now_ns + detect_ns_ + below(out_ns - detect_ns_),
                          PutPages{any_client(), {key}, 20 * kMillisecond}});
      company_.push_back(
          {back_ns + below(gone_ns - back_ns), PutPages{any_client(), {key}, gone_ns - back_ns}});
      company_.push_back(
          {left_ns - below(detect_ns_), FetchPages{any_client(), {key}, 10 * kMillisecond, false}});
    }
  }

  // A quarter are tight: few slots and keys, and reads that take about as long as slots cool. Half
  // of those with a register are restless: what befalls a node mostly lasts until it has been left
  // out, and until others have taken puts without it; and the register is often asked in vain.
  SimClusterOptions cluster() {
    SimClusterOptions cluster;
    cluster.clients = options_.clients;
    cluster.nodes = options_.nodes;
    cluster.replicas = options_.replicas;
    cluster.uses_register = options_.nodes > 1 && chance(0.5);
    restless_ = cluster.uses_register && chance(0.5);
    cluster.epochs.detect_ns = (restless_ ? between(4, 30) : between(20, 80)) * kMillisecond;
    cluster.epochs.timeout_ns = between(2, 20) * kMillisecond;
    cluster.epochs.loss = (restless_ ? 0.6 : 0.05) * random_.unit();
    cluster.node.page_bytes = kPageBytes;
    tight_ = chance(0.25);
    cluster.node.pool_bytes = between(3, tight_ ? 4 : 16) * (kPageBytes + sizeof(PageHeader));
    cluster.node.reuse_ms = between(1, 3);
    cluster.node.lease_ms = between(10, restless_ ? 15 : 60);
    cluster.node.evict = chance(0.7);
    cluster.control_max_ns =
        chance(0.1) ? between(1, 10) * kMillisecond : between(20, 500) * kMicrosecond;
    reuse_ns_ = cluster.node.reuse_ms * kMillisecond;
    lease_ns_ = cluster.node.lease_ms * kMillisecond;
    detect_ns_ = cluster.epochs.detect_ns;
    network_ = network();
    return cluster;
  }

  sim::SimOptions network() {
    sim::SimOptions network;
    network.delay_max_ns = chance(tight_ ? 0.7 : 0.15) ? between(reuse_ns_ / 4, 2 * reuse_ns_)
                                                       : between(5, 100) * kMicrosecond;
    network.late_max_ns = between(1, 20) * kMillisecond;
    if (chance(0.4)) network.loss = 0.02 * random_.unit();
    if (chance(0.5)) network.reorder = 0.5;
    if (chance(0.7)) network.tear = 0.7;
    if (chance(0.2)) network.fail = 0.003;
    if (chance(0.3)) network.offload_max_ns = between(1, 40) * kMillisecond;
    return network;
  }

  // Up to four kinds. Those that cost a path its end are rare: behind them nothing else happens.
  fault::FaultPlan faults() {
    fault::FaultPlan plan;
    plan.late_max_ns = between(1, 20) * kMillisecond;
    plan.reorder_max_ns = between(1, 500) * kMicrosecond;
    for (uint64_t kinds = below(5); kinds > 0; --kinds) {
      const auto kind = static_cast<FaultKind>(below(fault::kFaultKinds));
      if (!may(kind_of(kind)) || kind == FaultKind::kFlippedAtRest) continue;
      const bool ends_paths = kind == FaultKind::kLost || kind == FaultKind::kFailed;
      plan.of(kind) = (ends_paths ? 0.02 : 0.25) * random_.unit();
    }
    if (chance(0.05)) plan.delay_ns = below(kMillisecond);
    if (chance(0.05)) plan.bytes_per_s = between(1'000'000, 100'000'000);
    return plan;
  }

  // A tenth are over before they begin, or hardly later; the others have up to 30 ms.
  uint64_t patience() {
    if (chance(0.1)) return below(20) * kMicrosecond;
    return chance(0.5) ? between(20 * kMicrosecond, 2 * kMillisecond)
                       : between(kMillisecond, 30 * kMillisecond);
  }

  // A third are of 2 to 4 pages. The second one of the same key waits until the first is
  // replicated, and with it all that come behind: that is how an epoch's end finds puts half begun.
  std::vector<uint64_t> keys_of_put() {
    std::vector<uint64_t> keys(chance(0.3) ? between(2, 4) : 1);
    for (uint64_t& key : keys) key = below(keys_);
    if (keys.size() > 1 && chance(0.4)) keys[1] = keys[0];
    return keys;
  }

  decltype(Action::what) action() {
    const size_t client = below(options_.clients);
    const uint64_t choice = below(100);
    if (choice < 4) return CancelFetch{client};
    if (choice < 52) {
      std::vector<uint64_t> keys(chance(0.1) ? 40 : between(1, 6));
      for (uint64_t& key : keys) key = below(keys_);
      return FetchPages{client, std::move(keys), patience(), chance(0.2)};
    }
    if (choice < 82) return PutPages{client, keys_of_put(), patience()};
    if (choice < 86) return RemovePage{client, below(keys_), patience()};
    if (choice < 89) return AskForPage{client, below(keys_), patience()};
    if (choice < 90) return ChangeNetwork{network()};
    if (choice < 94) return SpoilOperations{below(hosts()), faults()};
    if (choice < 95 && may(kind_of(FaultKind::kFlippedAtRest))) {
      return FlipAtRest{below(options_.nodes)};
    }
    if (choice < 96) {
      const auto end = static_cast<NodeEnd>(below(3));
      if (may(kind_of(static_cast<Disturbance>(end)))) {
        const uint64_t longest = (restless_ ? 80 : 20) * kMillisecond;
        return EndNode{below(options_.nodes), end, chance(0.5) ? 0 : between(0, longest)};
      }
    }
    return disturb(client);
  }

  decltype(Action::what) disturb(size_t client) {
    if (restless_ && may(kind_of(Disturbance::kParted)) && chance(0.3)) {
      const size_t register_host = hosts();
      return Disturb{Disturbance::kParted, register_host, below(hosts()),
                     between(0, 120 * kMillisecond)};
    }
    const auto kind =
        static_cast<Disturbance>(between(3, kDisturbances - (options_.nodes > 1 ? 1 : 3)));
    if (!may(kind_of(kind))) return PutPages{client, keys_of_put(), patience()};
    const size_t node = below(options_.nodes);
    const uint64_t longest = (restless_ ? 120 : 40) * kMillisecond;
    Disturb disturb = {kind, options_.nodes + client, node, between(0, longest)};
    if (const size_t host = below(hosts()); is_of_two(kind) && host != node) disturb.host = host;
    if (kind == Disturbance::kEpochUnread) disturb.other = below(hosts());
    if (kind == Disturbance::kClientPaused && chance(0.5)) disturb.for_ns = below(3 * kMillisecond);
    return disturb;
  }

  Random random_;
  const PlanOptions& options_;
  uint64_t keys_ = 0;
  uint64_t reuse_ns_ = 0;
  uint64_t lease_ns_ = 0;
  uint64_t detect_ns_ = 0;
  bool tight_ = false;
  bool restless_ = false;
  std::vector<Action> company_;  // of what was drawn
  sim::SimOptions network_;
};

std::string ms(uint64_t duration_ns) {
  return fmt::format("{:.3f} ms", static_cast<double>(duration_ns) / 1e6);
}

struct Describe {
  std::string operator()(const FetchPages& fetch) const {
    return fmt::format("client {} fetches {}{} within {}", fetch.client, fmt::join(fetch.keys, ","),
                       fetch.newest_known ? " (newest known)" : "", ms(fetch.patience_ns));
  }
  std::string operator()(const CancelFetch& cancel) const {
    return fmt::format("client {} lets its last fetch go", cancel.client);
  }
  std::string operator()(const PutPages& put) const {
    return fmt::format("client {} puts {} within {}", put.client, fmt::join(put.keys, ","),
                       ms(put.patience_ns));
  }
  std::string operator()(const RemovePage& remove) const {
    return fmt::format("client {} removes {} within {}", remove.client, remove.key,
                       ms(remove.patience_ns));
  }
  std::string operator()(const AskForPage& ask) const {
    return fmt::format("client {} asks for {} within {}", ask.client, ask.key, ms(ask.patience_ns));
  }
  std::string operator()(const SpoilOperations& spoil) const {
    std::string text = fmt::format("operations of host {}:", spoil.host);
    for (size_t kind = 0; kind < fault::kFaultKinds; ++kind) {
      if (spoil.plan.chance[kind] == 0) continue;
      text += fmt::format(" {} {:.3f}", fault::kFaultNames[kind], spoil.plan.chance[kind]);
    }
    if (spoil.plan.delay_ns > 0) text += " delay " + ms(spoil.plan.delay_ns);
    if (spoil.plan.bytes_per_s > 0) text += fmt::format(" {} B/s", spoil.plan.bytes_per_s);
    return text;
  }
  std::string operator()(const FlipAtRest& flip) const {
    return fmt::format("a bit of node {} flips at rest", flip.node);
  }
  std::string operator()(const EndNode& end) const {
    return fmt::format("node {} is {}, and starts again after {}", end.node,
                       kDisturbanceNames[static_cast<size_t>(end.end)], ms(end.down_ns));
  }
  std::string operator()(const Disturb& disturb) const {
    return fmt::format("{}: host {} (and {}) for {}",
                       kDisturbanceNames[static_cast<size_t>(disturb.kind)], disturb.host,
                       disturb.other, ms(disturb.for_ns));
  }
  std::string operator()(const ChangeNetwork& change) const {
    const sim::SimOptions& network = change.options;
    return fmt::format(
        "network: delay up to {}, loss {:.3f}, late up to {}, reorder {}, tear {}, fail {}",
        ms(network.delay_max_ns), network.loss, ms(network.late_max_ns), network.reorder,
        network.tear, network.fail);
  }
};

}  // namespace

std::string describe(const Action& action) {
  return ms(action.at_ns) + ": " + std::visit(Describe{}, action.what);
}

Plan draw_plan(uint64_t seed, const PlanOptions& options) {
  return Draw(seed, options).plan(seed);
}

}  // namespace farpage::chaos
