#include "lab/recovery/recovery_bench.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "base/memory/mapping.h"
#include "pagetable/placement.h"
#include "replay/page_content.h"
#include "sim/sim_cluster.h"
#include "tier/client.h"

namespace farpage {
namespace {

constexpr uint64_t kPageBytes = 512;
constexpr uint64_t kReadNs = 10 * kMicrosecond;
constexpr uint64_t kSlower = 20;
constexpr uint64_t kSlowOneIn = 100;
constexpr uint64_t kLookNs = 4 * kMicrosecond;  // of engines under load, at what has come

SimClusterOptions three_nodes(uint64_t clients) {
  SimClusterOptions options;
  options.nodes = 3;
  options.replicas = 2;
  options.clients = clients;
  options.node.pool_bytes = 1024 * (kPageBytes + sizeof(PageHeader));
  options.network.delay_min_ns = options.network.delay_max_ns = kReadNs / 3;
  return options;
}

constexpr uint64_t kMostKeys = 300;

const PageKey& key_of(uint64_t number) {
  static const std::vector<PageKey> keys = [] {
    std::vector<PageKey> made;
    for (uint64_t i = 0; i < kMostKeys; ++i) {
      made.push_back(make_page_key("recovery", std::to_string(i)));
    }
    return made;
  }();
  return keys[number];
}

uint64_t quantile(std::vector<uint64_t> values, double part) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  return values[static_cast<size_t>(part * static_cast<double>(values.size() - 1))];
}

// A client and the batch that it fetches, over and over.
class Reader {
 public:
  Reader(SimCluster& cluster, size_t client, size_t batch)
      : cluster_(cluster),
        client_(cluster.connect(client).value()),
        memory_(Mapping::anonymous(batch * kPageBytes).value()),
        region_(client_->register_memory({memory_.data(), memory_.bytes()}).value()),
        lane_(client_->open_lane().value()),
        requests_(batch),
        verdicts_(batch) {
    for (size_t i = 0; i < batch; ++i) {
      requests_[i].destination = region_.slice(i * kPageBytes, kPageBytes);
    }
  }

  bool put(uint64_t number) {
    fill_page({memory_.data(), kPageBytes}, key_of(number), number);
    const PutRequest request = {key_of(number), region_.slice(0, kPageBytes)};
    return client_->put({&request, 1}, cluster_.now_ns() + kSecond).wait()[0].code == Code::kOk;
  }

  // Of pages number, number + 1, …, modulo `keys`.
  void start(uint64_t number, uint64_t keys, uint64_t in_ns, const FetchOptions& options) {
    first_ = number;
    keys_ = keys;
    for (size_t i = 0; i < requests_.size(); ++i) requests_[i].key = key_of((first_ + i) % keys_);
    fetch_.emplace(lane_.fetch(requests_, verdicts_, cluster_.now_ns() + in_ns, options));
  }
  bool done() { return fetch_->done(); }
  bool released() { return fetch_->released(); }
  void progress() { lane_.progress(); }

  uint64_t wrong_bytes() const {
    uint64_t wrong = 0;
    for (size_t i = 0; i < requests_.size(); ++i) {
      if (verdicts_[i].verdict != Verdict::kReady) continue;
      const uint64_t number = (first_ + i) % keys_;
      wrong +=
          count_wrong_bytes({verdicts_[i].landed, kPageBytes}, requests_[i].key, {number, number});
    }
    return wrong;
  }
  const std::vector<PageVerdict>& verdicts() const { return verdicts_; }
  LaneStats stats() const { return lane_.stats(); }

 private:
  SimCluster& cluster_;
  std::unique_ptr<Client> client_;
  Mapping memory_;
  Region region_;
  Lane lane_;
  std::vector<PageRequest> requests_;
  std::vector<PageVerdict> verdicts_;
  uint64_t first_ = 0;
  uint64_t keys_ = 1;
  std::optional<Fetch> fetch_;  // last: what it writes to still stands
};

// Until every key is on its replicas, which takes until the nodes have reached each other.
void fill(SimCluster& cluster, Reader& reader, uint64_t keys) {
  for (uint64_t number = 0; number < keys; ++number) {
    while (!reader.put(number)) cluster.world().run_until(cluster.now_ns() + kMillisecond);
  }
}

class HedgingRun {
 public:
  explicit HedgingRun(uint64_t seed) : cluster_(seed, options()), reader_(cluster_, 0, 1) {
    fill(cluster_, reader_, kKeys);
    fetch(kWarmUp, {});
  }

  std::vector<uint64_t> fetch(uint64_t count, const FetchOptions& fetch_options) {
    const Epoch list = cluster_.fleet_for_client(0).list;
    const Placement placement(list);
    std::vector<uint64_t> took;
    for (uint64_t i = 0; i < count; ++i) {
      const bool of_slow = placement.replicas(key_of(i % kKeys)).primary() == 0;
      const bool slow = of_slow && ++of_slow_ % kSlowOneIn == 0;
      set_read_ns(slow ? kSlower * kReadNs : kReadNs);
      reader_.start(i % kKeys, kKeys, kSecond, fetch_options);
      set_read_ns(kReadNs);
      drive([this] { return reader_.done(); });
      took.push_back(reader_.verdicts()[0].took_ns);
      wrong_bytes_ += reader_.wrong_bytes();
      drive([this] { return reader_.released(); });
    }
    return took;
  }
  LaneStats stats() const { return reader_.stats(); }
  uint64_t wrong_bytes() const { return wrong_bytes_; }

 private:
  static constexpr uint64_t kKeys = 60;
  static constexpr uint64_t kWarmUp = 1'200;

  static SimClusterOptions options() {
    SimClusterOptions options = three_nodes(1);
    options.node.lease_ms = 2'000;
    options.node.reuse_ms = 100;
    return options;
  }
  void set_read_ns(uint64_t read_ns) {
    sim::SimOptions network = options().network;
    network.delay_min_ns = network.delay_max_ns = read_ns / 3;
    network.reorder = 1;
    cluster_.client_fabric(0).set_options(network);
  }
  template <typename Ready>
  void drive(const Ready& ready) {
    for (reader_.progress(); !ready(); reader_.progress()) {
      cluster_.world().run_until(cluster_.now_ns() + kMicrosecond);
    }
  }

  SimCluster cluster_;
  Reader reader_;
  uint64_t of_slow_ = 0;
  uint64_t wrong_bytes_ = 0;
};

}  // namespace

HedgingResult measure_hedging(uint64_t seed) {
  HedgingRun run(seed);
  HedgingResult result;
  result.fetches = 12'000;
  result.unhedged_p999_ns = quantile(run.fetch(result.fetches, {}), 0.999);
  const LaneStats before = run.stats();
  result.hedged_p999_ns = quantile(run.fetch(result.fetches, {.hedge = true}), 0.999);
  const LaneStats after = run.stats();
  result.hedges = after.hedges - before.hedges;
  result.hedges_won = after.hedges_won - before.hedges_won;
  result.extra_reads = static_cast<double>(after.operations - before.operations) /
                           static_cast<double>(result.fetches) -
                       1;
  result.wrong_bytes = run.wrong_bytes();
  return result;
}

DeathResult measure_death(uint64_t seed) {
  constexpr uint64_t kKeys = kMostKeys;
  DeathResult result;
  result.clients = 4;
  result.batch = 32;
  result.deadline_ns = 2 * kMillisecond;
  SimClusterOptions options = three_nodes(result.clients);
  options.uses_register = true;
  options.network.delay_min_ns = options.network.delay_max_ns = kReadNs;
  result.lease_ns = options.node.lease_ms * kMillisecond;
  SimCluster cluster(seed, options);
  std::vector<std::unique_ptr<Reader>> readers;
  for (size_t client = 0; client < result.clients; ++client) {
    readers.push_back(std::make_unique<Reader>(cluster, client, result.batch));
  }
  fill(cluster, *readers[0], kKeys);
  uint64_t next = 0;
  const auto start = [&](Reader& reader) {
    reader.start(next, kKeys, result.deadline_ns, {});
    next = (next + result.batch) % kKeys;
  };
  for (auto& reader : readers) start(*reader);
  const auto fetch_for = [&](uint64_t duration_ns) {
    DeathResult::Span span;
    std::vector<uint64_t> took;
    const uint64_t end = cluster.now_ns() + duration_ns;
    while (cluster.now_ns() < end) {
      for (auto& reader : readers) {
        reader->progress();
        if (!reader->released()) continue;
        for (const PageVerdict& verdict : reader->verdicts()) {
          took.push_back(verdict.took_ns);
          span.ready += verdict.verdict == Verdict::kReady ? 1 : 0;
          result.late += verdict.took_ns > result.deadline_ns ? 1 : 0;
        }
        result.wrong_bytes += reader->wrong_bytes();
        start(*reader);
      }
      cluster.world().run_until(cluster.now_ns() + kLookNs);
    }
    span.pages = took.size();
    span.slowest_ns = quantile(took, 1);
    span.p99_ns = quantile(std::move(took), 0.99);
    return span;
  };
  fetch_for(5 * kMillisecond);  // until each lane knows how long its peers take
  result.before = fetch_for(10 * kMillisecond);
  cluster.end_node(NodeEnd::kPowerLost, 1);
  result.meanwhile = fetch_for(2 * result.lease_ns);
  result.after = fetch_for(10 * kMillisecond);
  return result;
}

}  // namespace farpage
