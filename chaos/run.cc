#include "chaos/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <compare>
#include <functional>
#include <map>
#include <memory>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>

#include "base/check.h"
#include "base/random.h"
#include "chaos/kept_pages.h"
#include "pagetable/guards.h"
#include "sim/fault/fault_fabric.h"

namespace farpage::chaos {
namespace {

using fault::FaultFabric;

constexpr uint64_t kCalmWaitNs = 5 * kSecond;
constexpr uint64_t kLongestPauseNs = 500 * kMillisecond;  // of a client that dials
constexpr uint64_t kCalmNs = 100 * kMillisecond;  // longer than any lease, and than most delays
constexpr uint64_t kPatienceMs = 100;             // of a client with a node that says no hello
constexpr uint64_t kPutsAtTheEnd = 2;
constexpr uint64_t kRestMs = 20;  // of links, in every other run

class Run final : public EngineWitness {
 public:
  explicit Run(const Plan& plan)
      : plan_(plan),
        random_(plan.seed),
        cluster_(plan.seed, options(plan)),
        ledger_(cluster_, truth_, plan.cluster.node.lease_ms * kMillisecond),
        kept_(cluster_, cluster_.fleet_for_client(0).list),
        node_runs_(cluster_.nodes()) {
    calm();
    for (size_t client = 0; client < plan_.cluster.clients; ++client) {
      ClientOptions options;
      options.connect_ms = kPatienceMs;
      options.verify = enforced(Guard::kPayloadCrc);
      options.rest_ms = plan_.seed % 2 * kRestMs;
      client_faults_.push_back(wrap(cluster_.client_fabric(client)));
      engines_.push_back(std::make_unique<SimEngine>(
          cluster_.world(), cluster_.connect(client, options, client_faults_.back().get()).value(),
          truth_, findings_, plan_.cluster.node.page_bytes, this));
      ledger_.add(*engines_.back());
    }
  }

  RunResult result() {
    const uint64_t begin = cluster_.now_ns();
    cluster_.watch_answers([this](size_t host, const Reply& reply) { answered(host, reply); });
    cluster_.set_control_delay(plan_.cluster.control_min_ns, plan_.cluster.control_max_ns);
    lose_at_register(plan_.cluster.epochs.loss);
    for (const Action& action : plan_.actions) {
      live_until(cluster_.world(), engines_, begin + action.at_ns);
      if (!findings_.empty()) break;
      std::visit([this](const auto& what) { act(what); }, action.what);
    }
    if (findings_.empty()) settle();
    return sum();
  }

  void put_sent(const PageKey& key, uint64_t number) override { kept_.put_sent(key, number); }
  void put_ended(const Asked& asked, uint64_t number, const PutResult& result) override {
    ledger_.put_ended(asked, number, result);
    if (result.code == Code::kOk) kept_.put_acknowledged(asked.key, number, result.version);
  }
  void remove_sent(const PageKey& key) override { kept_.remove_sent(key); }
  void remove_ended(const Asked& asked, Code code) override {
    ledger_.remove_ended(asked, code);
    kept_.remove_ended(asked.key, code == Code::kOk);
  }
  void page_judged(const std::byte* destination, const Asked& asked,
                   const PageVerdict& verdict) override {
    ledger_.page_judged(destination, asked, verdict);
    if (verdict.verdict != Verdict::kReady) return;
    const auto owner = std::ranges::find_if(
        engines_, [&](const auto& engine) { return engine.get() == asked.engine; });
    const auto client = static_cast<size_t>(owner - engines_.begin());
    const SimRegister* epochs = cluster_.epochs();
    if (epochs == nullptr) return;
    const size_t host = cluster_.client_host(client);
    check_view(host, epochs->last_read_of_epoch_ns(engines_[client]->client().epoch()),
               asked.sent_ns + verdict.took_ns, "a page was ready");
  }

 private:
  // A disturbance that lasts, and whom it befalls; of a node's run, which. Overlapping ones end
  // with the last of them.
  struct Ongoing {
    Disturbance kind;
    size_t host;
    size_t other;
    uint64_t run;

    friend bool operator==(const Ongoing&, const Ongoing&) = default;
    friend bool operator<(const Ongoing& one, const Ongoing& other) {
      return std::tie(one.kind, one.host, one.other, one.run) <
             std::tie(other.kind, other.host, other.other, other.run);
    }
  };

  SimClusterOptions options(const Plan& plan) {
    SimClusterOptions options = plan.cluster;
    options.wrap_node = [this](size_t node, sim::SimFabric& own) {
      auto faulty = wrap(own);
      if (node_faults_.size() <= node) node_faults_.resize(node + 1);
      node_faults_[node] = faulty.get();
      return faulty;
    };
    return options;
  }

  std::unique_ptr<FaultFabric> wrap(sim::SimFabric& own) {
    auto faulty = std::make_unique<FaultFabric>(own, own.runtime().clock(), random_.next());
    faulty->watch([this](const Operation& operation, std::optional<fault::FaultKind> fault) {
      ledger_.passed(operation, fault);
    });
    return faulty;
  }

  void live(uint64_t duration_ns) {
    live_until(cluster_.world(), engines_, cluster_.now_ns() + duration_ns);
  }

  // Rule 12: a view lasts `view_lease` from the sending of the read that gave it.
  void check_view(size_t host, uint64_t read_ns, uint64_t time_ns, std::string_view what) {
    if (time_ns < read_ns + lease_ns()) return;
    findings_.add(FindingKind::kEndedViews,
                  fmt::format("{} at host {}, whose view had ended", what, host));
  }

  void answered(size_t host, const Reply& reply) {
    const auto* commit = std::get_if<CommitReply>(&reply);
    const bool acknowledges =
        std::holds_alternative<RemoveReply>(reply) ||
        (commit != nullptr && std::ranges::any_of(commit->results, [](const CommitResult& page) {
           return page.code == Code::kOk;
         }));
    const SimRegister* epochs = cluster_.epochs();
    if (!acknowledges || epochs == nullptr) return;
    check_view(host, epochs->last_read_ns(host), cluster_.now_ns(),
               "a put or remove was acknowledged");
  }

  SimEngine* awake(size_t client) {
    SimEngine& engine = *engines_[client];
    return engine.paused() ? nullptr : &engine;
  }
  FaultFabric& faults_of(size_t host) {
    return host < cluster_.nodes() ? *node_faults_[host] : *client_faults_[client_of(host)];
  }
  size_t client_of(size_t host) const { return host - cluster_.nodes(); }
  uint64_t lease_ns() const { return plan_.cluster.node.lease_ms * kMillisecond; }
  void later(uint64_t delay_ns, std::function<void()> then) {
    cluster_.world().after(delay_ns, std::move(then));
  }

  void act(const FetchPages& fetch) {
    if (auto* engine = awake(fetch.client)) {
      engine->start_fetch(fetch.keys, fetch.patience_ns, fetch.newest_known);
    }
  }
  void act(const CancelFetch& cancel) {
    if (auto* engine = awake(cancel.client)) engine->cancel_last_fetch();
  }
  void act(const PutPages& put) {
    if (auto* engine = awake(put.client)) engine->start_put(put.keys, put.patience_ns);
  }
  void act(const RemovePage& remove) {
    if (auto* engine = awake(remove.client)) engine->start_remove(remove.key, remove.patience_ns);
  }
  void act(const AskForPage& ask) {
    if (auto* engine = awake(ask.client)) engine->check_contains(ask.key, ask.patience_ns);
  }
  void act(const SpoilOperations& spoil) { faults_of(spoil.host).set_plan(spoil.plan); }
  void act(const ChangeNetwork& change) { cluster_.set_network(change.options); }

  void act(const FlipAtRest& flip) {
    if (!cluster_.node_runs(flip.node)) return;
    const auto flipped = node_faults_[flip.node]->flip_at_rest();
    if (!flipped) return;
    kept_.flipped_at_rest(flip.node);
    ledger_.flipped_at_rest(flip.node, *flipped);
  }

  void act(const EndNode& end) {
    if (!cluster_.node_runs(end.node)) return;
    const bool is_alone = cluster_.nodes() == 1 && cluster_.epochs() == nullptr;
    kept_.node_ends(end.node,
                    plan_.cluster.keep_pools && is_alone && end.end != NodeEnd::kPowerLost);
    cluster_.end_node(end.end, end.node);
    ++node_runs_[end.node];
    ledger_.node_ended(end.node);
    ledger_.disturbed(static_cast<Disturbance>(end.end), {end.node, end.node}, end.down_ns);
    later(end.down_ns, [this, node = end.node] {
      if (!cluster_.node_runs(node)) cluster_.start_node(node);
    });
  }

  Befallen whom(const Disturb& disturb) const {
    const bool is_of_other =
        disturb.kind == Disturbance::kNodePaused || disturb.kind == Disturbance::kEpochUnread;
    if (is_of_two(disturb.kind)) return {disturb.host, disturb.other};
    size_t host = is_of_other ? disturb.other : disturb.host;
    if (disturb.kind == Disturbance::kRegisterSilent) host = cluster_.register_host();
    return {host, host};
  }

  void act(const Disturb& disturb) {
    const size_t node = disturb.other;
    if (is_of_register(disturb.kind) && cluster_.epochs() == nullptr) return;
    if (disturb.kind == Disturbance::kNodePaused && !cluster_.node_runs(node)) return;
    ledger_.disturbed(disturb.kind, whom(disturb), disturb.for_ns);
    if (!lasts(disturb.kind)) return set(disturb, true);
    const Ongoing ongoing = ongoing_of(disturb);
    if (ongoing_[ongoing]++ == 0) set(disturb, true);
    later(disturb.for_ns, [this, disturb, ongoing] {
      const auto found = ongoing_.find(ongoing);
      if (found == ongoing_.end() || --found->second > 0) return;
      ongoing_.erase(found);
      if (ongoing == ongoing_of(disturb)) set(disturb, false);
    });
  }

  static bool lasts(Disturbance kind) {
    return kind != Disturbance::kLinksCut && kind != Disturbance::kLinksSilent;
  }

  // A node's next run is not paused, and sees its peers.
  Ongoing ongoing_of(const Disturb& disturb) const {
    const Befallen befallen = whom(disturb);
    const auto [host, other] = SimWire::pair(befallen.host, befallen.other);
    const bool is_of_run =
        disturb.kind == Disturbance::kNodePaused || disturb.kind == Disturbance::kPeersStopped;
    return {disturb.kind, host, other, is_of_run && host < cluster_.nodes() ? node_runs_[host] : 0};
  }

  // Begins it, or ends what lasts.
  void set(const Disturb& disturb, bool on) {
    const auto [kind, host, other, for_ns] = disturb;
    switch (kind) {
      case Disturbance::kNodePaused:
        return on ? cluster_.node_fabric(other).pause() : wake_node(other);
      case Disturbance::kClientPaused:
        return on ? pause_client(client_of(host)) : wake_client(client_of(host));
      case Disturbance::kPeersStopped:
        return on ? faults_of(host).stop_peers() : faults_of(host).resume_peers();
      case Disturbance::kLinksCut:
        return cluster_.cut_links(host, other);
      case Disturbance::kLinksSilent:
        return cluster_.silence_links(host, other);
      case Disturbance::kParted:
        return on ? cluster_.part(host, other) : cluster_.heal(host, other);
      case Disturbance::kDialsRefused:
        return cluster_.let_dial(client_of(host), !on);
      case Disturbance::kRegisterSilent:
        return cluster_.epochs()->set_loss(on ? 1 : register_loss_);
      case Disturbance::kEpochUnread:
        return cluster_.epochs()->set_unread(other, on);
      default:
        return;
    }
  }

  void wake_node(size_t node) {
    if (cluster_.node_runs(node)) cluster_.node_fabric(node).resume();
  }
  void pause_client(size_t client) {
    engines_[client]->pause();
    cluster_.client_fabric(client).pause();
  }
  void wake_client(size_t client) {
    cluster_.client_fabric(client).resume();
    engines_[client]->resume();
  }

  void lose_at_register(double loss) {
    register_loss_ = loss;
    if (cluster_.epochs() != nullptr) cluster_.epochs()->set_loss(loss);
  }

  // Nothing goes wrong any more.
  void calm() {
    ongoing_.clear();
    for (size_t client = 0; client < engines_.size(); ++client) {
      cluster_.let_dial(client, true);
      if (engines_[client]->paused()) wake_client(client);
      client_faults_[client]->set_plan({});
      client_faults_[client]->resume_peers();
    }
    cluster_.heal_all();
    lose_at_register(0);
    for (size_t host = 0; cluster_.epochs() != nullptr && host < cluster_.register_host(); ++host) {
      cluster_.epochs()->set_unread(host, false);
    }
    for (size_t node = 0; node < cluster_.nodes(); ++node) {
      if (!cluster_.node_runs(node)) cluster_.start_node(node);
      wake_node(node);
      node_faults_[node]->set_plan({});
      node_faults_[node]->resume_peers();
    }
    cluster_.set_network({});
    cluster_.set_control_delay(10 * kMicrosecond, 200 * kMicrosecond);
  }

  void settle() {
    calm();
    // Until a hello that was said into silence is said again, too, and every pause between two
    // dials has passed.
    live(kPatienceMs * kMillisecond + kLongestPauseNs + kCalmNs);
    if (!wait_until_idle(cluster_.world(), engines_, cluster_.now_ns() + kCalmWaitNs)) {
      return unfinished("something is held, or a client has found no way back");
    }
    live(kCalmNs);
    for (uint64_t key = 0; key < plan_.keys; ++key) {
      if (findings_.empty()) check_kept(key);
    }
    // Without eviction a node may be full, and says so.
    if (!plan_.cluster.node.evict) remove_all();
    for (uint64_t put = 0; put < kPutsAtTheEnd && findings_.empty(); ++put) {
      check_put(random_.below(plan_.keys));
    }
    live(kCalmNs);
    for (auto& engine : engines_) {
      if (!engine->idle()) unfinished("something is held at the end");
      engine->check_frames();
    }
  }

  void check_kept(uint64_t key) {
    const bool must_be_there = kept_.must_be_there(sim_key(key));
    if (!must_be_there && !kept_.had_a_holder_throughout(sim_key(key))) return;
    ++(must_be_there ? result_.pages_kept : result_.pages_handed_over);
    for (auto& engine : engines_) {
      const PageVerdict verdict = engine->fetch_now(key, kCalmWaitNs);
      if (verdict.verdict == Verdict::kReady) continue;
      if (must_be_there) {
        findings_.add(FindingKind::kLostAcknowledgedPut,
                      fmt::format("key {} is gone: {}", key, reason_name(verdict.reason)));
      } else {
        ++result_.lost_to_fast_epochs;
      }
      return;
    }
  }

  void remove_all() {
    for (uint64_t key = 0; key < plan_.keys; ++key) engines_[0]->start_remove(key, kCalmWaitNs);
    live(kCalmNs);
  }

  void check_put(uint64_t key) {
    SimEngine& writer = *engines_[random_.below(engines_.size())];
    const uint64_t began_ns = cluster_.now_ns();
    PutResult put = writer.put_now(key, kCalmWaitNs);
    // One whose primary is being dialled again is refused at once.
    while (put.code == Code::kUnavailable && cluster_.now_ns() < began_ns + kCalmWaitNs) {
      live(kCalmNs);
      put = writer.put_now(key, kCalmWaitNs);
    }
    // Puts that wait for room on a connection which has fallen silent may have taken what there
    // was.
    if (put.code == Code::kExhausted && !plan_.cluster.node.evict) {
      remove_all();
      put = writer.put_now(key, kCalmWaitNs);
    }
    if (put.code != Code::kOk) {
      return unfinished(fmt::format("no put of key {} any more: {}, after {} ms", key,
                                    code_name(put.code),
                                    (cluster_.now_ns() - began_ns) / kMillisecond));
    }
    for (auto& engine : engines_) {
      const PageVerdict verdict = engine->fetch_now(key, kCalmWaitNs);
      if (verdict.verdict == Verdict::kReady && verdict.version == put.version) continue;
      return unfinished(
          fmt::format("what was put cannot be fetched: {}", reason_name(verdict.reason)));
    }
  }

  void unfinished(std::string sentence) {
    findings_.add(FindingKind::kUnfinished, std::move(sentence));
  }

  RunResult sum() {
    result_.runs = 1;
    result_.runs_apart = plan_.cluster.nodes_apart > 0 ? 1 : 0;
    result_.actions = plan_.actions.size();
    for (const auto& engine : engines_) {
      result_ += RunCounts{engine->counts()};
      ledger_.strays(engine->lane_stats().strays);
    }
    engines_.clear();
    result_.injected = ledger_.injected();
    result_.caught = ledger_.caught();
    result_.findings = findings_.all();
    result_.found = count_by_kind(result_.findings);
    return std::move(result_);
  }

  const Plan& plan_;
  Random random_;
  std::vector<FaultFabric*> node_faults_;  // of the run that there is now, or was last
  Truth truth_;
  Findings findings_;
  SimCluster cluster_;
  Ledger ledger_;
  KeptPages kept_;
  std::vector<uint64_t> node_runs_;  // that have ended, by node
  std::map<Ongoing, uint64_t> ongoing_;
  RunResult result_;
  double register_loss_ = 0;  // whenever it is not silent
  std::vector<std::unique_ptr<FaultFabric>> client_faults_;
  SimEngines engines_;
};

}  // namespace

RunCounts& RunCounts::operator+=(const RunCounts& more) {
  const auto add = [](auto& sum, const auto& each) {
    std::ranges::transform(sum, each, sum.begin(), std::plus());
  };
  for (const NamedCount& named : kRunCounts) this->*named.count += more.*named.count;
  crashed += more.crashed;
  add(injected, more.injected);
  add(caught, more.caught);
  add(found, more.found);
  return *this;
}

RunResult run_plan(const Plan& plan) {
  return Run(plan).result();
}

}  // namespace farpage::chaos
