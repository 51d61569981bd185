#include "tests/support/sim_history.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <utility>

namespace farpage {
namespace {

constexpr uint64_t kPageBytes = 512;
constexpr uint64_t kCalmNs = 100 * kMillisecond;

}  // namespace

SimHistory::SimHistory(uint64_t seed, Tally& tally,
                       const std::function<SimClusterOptions(sim::Draws& draws)>& draw)
    : draws_(seed),
      tally_(tally),
      options_(draw(draws_)),
      keys_(draws_.between(2, 20)),
      cluster_(seed, wrapped(options_)) {
  client_options_.connect_ms = 500;  // also what a hello on a link that is silent costs
  client_options_.staging_bytes = 64 * kKiB;
}

SimClusterOptions SimHistory::draw_cluster(sim::Draws& draws, uint64_t slots) {
  SimClusterOptions options;
  options.clients = 2;
  options.node.page_bytes = kPageBytes;
  options.node.pool_bytes = slots * (kPageBytes + sizeof(PageHeader));
  options.node.reuse_ms = draws.between(1, 3);
  options.node.lease_ms = draws.between(10, 60);
  options.node.evict = draws.chance(0.8);
  options.network = draws.network(options.node.reuse_ms * kMillisecond, {.slow = 0.3});
  options.control_max_ns = draws.chance(0.1) ? draws.between(1, 30) * kMillisecond
                                             : draws.between(20, 500) * kMicrosecond;
  return options;
}

// Nothing goes wrong before everybody is there: no client opens a lane where the node's answers
// take longer than a lease lasts.
SimClusterOptions SimHistory::wrapped(SimClusterOptions options) {
  const SimClusterOptions gentle;
  options.network = {};
  options.control_min_ns = gentle.control_min_ns;
  options.control_max_ns = gentle.control_max_ns;
  node_faults_.resize(options.nodes);
  node_plans_.resize(options.nodes);
  options.wrap_node = [this](size_t node, sim::SimFabric& own) {
    auto faulty = std::make_unique<fault::FaultFabric>(own, own.runtime().clock(), draws_.next());
    faulty->set_plan(node_plans_[node]);
    node_faults_[node] = faulty.get();
    all_node_faults_.push_back(faulty.get());
    return faulty;
  };
  return options;
}

std::vector<Finding> SimHistory::run() {
  for (size_t host = 0; host < options_.clients; ++host) {
    client_faults_.push_back(std::make_unique<fault::FaultFabric>(
        cluster_.client_fabric(host), cluster_.world().clock(), draws_.next()));
    if (host >= engine_hosts_) continue;
    engines_.push_back(std::make_unique<SimEngine>(cluster_.world(), connect(host), truth_,
                                                   findings_, kPageBytes));
  }
  open();
  live(options_.nodes == 1 ? 0 : 300 * kMillisecond);  // every node has been dialled
  for (uint64_t key = 0; key < keys_; ++key) {
    if (draws_.chance(0.7)) engines_[0]->start_put({key}, kLongNs);
  }
  live(kCalmNs);
  set_harsh();
  for (int turn = 0; turn < turns_ && findings_.empty(); ++turn) {
    act();
    live(draws_.below(draws_.chance(0.25) ? 20 * turn_ns_ : turn_ns_));
  }
  for (auto& engine : engines_) add(*engine);
  for (auto& faulty : client_faults_) add(*faulty);
  for (auto* faulty : all_node_faults_) add(*faulty);
  count();
  if (findings_.empty()) settle();
  engines_.clear();
  close();
  return findings_.all();
}

std::unique_ptr<Client> SimHistory::connect(size_t client) {
  return cluster_.connect(client, client_options_, client_faults_[client].get()).value();
}

void SimHistory::disturb() {
  const size_t node = draws_.below(options_.nodes);
  const uint64_t choice = draws_.below(100);
  if (choice < 40) {
    cluster_.node_fabric(node).pause();
    live(draws_.between(0, 40 * kMillisecond));
    cluster_.node_fabric(node).resume();
  } else if (choice < 60) {
    restart(node);
  } else if (choice < 75) {
    cluster_.cut_links();
  } else if (choice < 80) {
    cluster_.silence_links();
  } else if (choice < 90) {
    tally_["flipped at rest"] += node_faults_[node]->flip_at_rest().has_value();
  } else {
    set_harsh();
  }
}

void SimHistory::restart(size_t node) {
  ++tally_["restarts"];
  cluster_.end_node(static_cast<NodeEnd>(draws_.below(3)), node);
  live(draws_.chance(0.5) ? 0 : draws_.between(0, 20 * kMillisecond));
  cluster_.start_node(node);
  // One client often finds it later than the others, and reads on under its old view.
  if (draws_.chance(0.5)) return;
  const size_t last = draws_.below(options_.clients);
  cluster_.let_dial(last, false);
  cluster_.world().after(draws_.between(0, 60 * kMillisecond),
                         [this, last] { cluster_.let_dial(last, true); });
}

bool SimHistory::live_until(uint64_t duration_ns, const std::function<bool()>& ready) {
  return cluster_.world().wait_until(cluster_.now_ns() + duration_ns, [&] {
    for (auto& engine : engines_) engine->observe();
    observe();
    return ready();
  });
}

bool SimHistory::all_ended() {
  return idle() && std::ranges::all_of(engines_, [](const auto& engine) {
           return engine->idle() && engine->client().reachable();
         });
}

void SimHistory::set_harsh() {
  cluster_.set_network(options_.network);
  cluster_.set_control_delay(options_.control_min_ns, options_.control_max_ns);
  for (auto& faulty : client_faults_) faulty->set_plan(draws_.faults(sim::any_faults(0.1)));
  for (size_t node = 0; node < options_.nodes; ++node) {
    node_plans_[node] = draws_.faults(sim::any_faults(0.1));
    node_faults_[node]->set_plan(node_plans_[node]);
  }
  options_.network = draws_.network(options_.node.reuse_ms * kMillisecond);  // for the next time
}

void SimHistory::set_gentle() {
  for (auto& faulty : client_faults_) faulty->set_plan({});
  for (auto* faulty : node_faults_) faulty->set_plan({});
  cluster_.set_network({});
  cluster_.set_control_delay(10 * kMicrosecond, 200 * kMicrosecond);
}

void SimHistory::settle() {
  set_gentle();
  live(2 * kSecond);  // a lane whose completions are lost ends within a second
  unless(live_until(kLongNs, [this] { return all_ended(); }),
         "something is held, or a client has found no way back");
  live(kCalmNs);
  end();
  for (uint64_t key = 0; key < keys_ && findings_.empty(); ++key) {
    const PutResult put = put_again(any_engine(), key);
    unless(put.code == Code::kOk,
           fmt::format("no put of key {} any more: {}", key, code_name(put.code)));
    if (findings_.empty()) have(key, put.version);
  }
  live(kLongNs);
  unless(all_ended(), "something is held at the end");
  for (auto& engine : engines_) {
    engine->check_frames();
    unless(engine->lane_stats().late_verdicts == 0,
           fmt::format("a verdict {} ns late", engine->lane_stats().latest_ns));
  }
}

PutResult SimHistory::put_again(SimEngine& writer, uint64_t key) {
  if (options_.node.evict) return writer.put_now(key, kLongNs);
  remove_all(writer);
  const PutResult put = writer.put_now(key, kLongNs);
  if (put.code != Code::kExhausted) return put;
  // Puts that waited for room on a connection which has fallen silent may have taken what there
  // was.
  remove_all(writer);
  return writer.put_now(key, kLongNs);
}

void SimHistory::remove_all(SimEngine& engine) {
  for (uint64_t key = 0; key < keys_; ++key) engine.start_remove(key, kLongNs);
  live(kCalmNs);
}

void SimHistory::have(uint64_t key, Version version) {
  for (auto& engine : engines_) {
    const PageVerdict verdict = engine->fetch_now(key, kLongNs);
    unless(verdict.verdict == Verdict::kReady && verdict.version == version,
           fmt::format("what was put cannot be fetched: {}", reason_name(verdict.reason)));
  }
}

void SimHistory::add(const SimEngine& engine) {
  const SimEngine::Counts counts = engine.counts();
  tally_["ready"] += counts.ready;
  tally_["recompute"] += counts.recompute;
  tally_["held"] += counts.held;
  tally_["hedged"] += counts.hedged;
  tally_["cancelled"] += counts.cancelled;
  tally_["puts"] += counts.puts;
  tally_["acknowledged puts"] += counts.puts_acknowledged;
  tally_["paths ended"] += engine.lane_stats().channels_ended;
  tally_["stray completions"] += engine.lane_stats().strays;
}

void SimHistory::add(const fault::FaultFabric& faulty) {
  for (size_t kind = 0; kind < fault::kFaultKinds; ++kind) {
    tally_[std::string(fault::kFaultNames[kind])] +=
        faulty.injected().of(static_cast<fault::FaultKind>(kind));
  }
}

void tell(const Seeds& seeds, const Tally& tally) {
  std::string line = fmt::format("{} seeds from {}:", seeds.count, seeds.first);
  for (const auto& [name, count] : tally) line += fmt::format(" {} {},", name, count);
  line.pop_back();
  std::puts(line.c_str());
}

}  // namespace farpage
