// Fetches warm pages over sim, for bench/scripts/instructions.py, which counts what runs inside of
// `counted_post` and `counted_poll` under callgrind: farpage_count_instructions PAGES BATCH
// once|twice [EPOCHS]. With EPOCHS there are two nodes, of which the one that has no page leaves
// and comes back as a new run so often before.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <vector>

#include "pagetable/placement.h"
#include "sim/sim_cluster.h"
#include "tests/support/engine.h"

namespace farpage {
namespace {

constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t kPatienceNs = kSecond;

SimClusterOptions options(uint64_t pages, bool epochs) {
  SimClusterOptions options;
  options.nodes = epochs ? 2 : 1;
  options.uses_register = epochs;
  options.node.page_bytes = kPageBytes;
  options.node.pool_bytes = 2 * pages * (kPageBytes + sizeof(PageHeader));
  options.node.lease_ms = epochs ? 200 : 60'000;  // what a former member is waited for
  options.node.reuse_ms = epochs ? 20 : 1'000;
  return options;
}

}  // namespace

// The world goes on between them, and is not counted.
extern "C" __attribute__((noinline)) void counted_post(Lane& lane,
                                                       std::span<const PageRequest> requests,
                                                       std::span<PageVerdict> verdicts,
                                                       uint64_t deadline_ns, Fetch& fetch) {
  fetch = lane.fetch(requests, verdicts, deadline_ns);
}
extern "C" __attribute__((noinline)) void counted_poll(Lane& lane) {
  lane.progress();
}

namespace {

// How many were ready.
uint64_t fetch_all(SimCluster& cluster, Engine& engine, std::span<const PageRequest> requests,
                   std::span<PageVerdict> verdicts, size_t batch) {
  for (size_t begin = 0; begin < requests.size(); begin += batch) {
    const size_t count = std::min(batch, requests.size() - begin);
    Fetch fetch;
    counted_post(engine.lane(), requests.subspan(begin, count), verdicts.subspan(begin, count),
                 engine.deadline(kPatienceNs), fetch);
    while (!fetch.done()) {
      cluster.world().run_until(cluster.now_ns() + kMillisecond);
      counted_poll(engine.lane());
    }
  }
  return static_cast<uint64_t>(
      std::ranges::count(verdicts, Verdict::kReady, &PageVerdict::verdict));
}

// Until the epoch has as many members, which all have entered it, and the lane has looked.
bool wait_for_members(SimCluster& cluster, Engine& engine, const PageKey& key, size_t members) {
  const RegisteredEpoch& now = cluster.epochs()->current();
  const uint64_t end_ns = cluster.now_ns() + 60 * kSecond;
  while (now.epoch.members.size() != members || !now.all_confirmed()) {
    if (cluster.now_ns() > end_ns) return false;
    cluster.world().run_until(cluster.now_ns() + 10 * kMillisecond);
  }
  for (int looks = 0; looks < 50; ++looks) {
    cluster.world().run_until(cluster.now_ns() + 10 * kMillisecond);
    if (engine.fetch(key).verdict != Verdict::kReady) return false;
  }
  return true;
}

bool replace_member(SimCluster& cluster, Engine& engine, const PageKey& key) {
  cluster.end_node(NodeEnd::kKilled, 1);
  if (!wait_for_members(cluster, engine, key, 1)) return false;
  cluster.start_node(1);
  return wait_for_members(cluster, engine, key, 2);
}

// Those whose pages lie at the first node.
std::vector<PageKey> keys_there(SimCluster& cluster, size_t pages) {
  std::vector<PageKey> keys;
  for (uint64_t number = 0; keys.size() < pages; ++number) {
    const PageKey key = test_key(number);
    const bool is_there = cluster.epochs() == nullptr ||
                          Placement(cluster.epochs()->current().epoch).replicas(key).primary() == 0;
    if (is_there) keys.push_back(key);
  }
  return keys;
}

int run(size_t pages, size_t batch, bool counted, std::optional<uint64_t> epochs) {
  SimCluster cluster(1, options(pages, epochs.has_value()));
  cluster.world().run_until(cluster.now_ns() + (epochs ? 5 * kSecond : 0));  // until puts open
  ClientOptions client_options;
  client_options.verify = false;
  const auto client = cluster.connect(0, client_options).value();
  Engine engine(*client, kPageBytes, pages);
  std::vector<PageRequest> requests;
  const std::vector<PageKey> keys = keys_there(cluster, pages);
  for (size_t page = 0; page < pages; ++page) {
    if (engine.put(keys[page], page).code != Code::kOk) return EXIT_FAILURE;
    requests.push_back({keys[page], 0, engine.slice(page)});
  }
  for (uint64_t epoch = 0; epoch < epochs.value_or(0); ++epoch) {
    if (!replace_member(cluster, engine, keys[0])) return EXIT_FAILURE;
  }
  std::vector<PageVerdict> verdicts(pages);
  const int rounds = counted ? 2 : 1;
  for (int round = 0; round < rounds; ++round) {
    if (fetch_all(cluster, engine, requests, verdicts, batch) != pages) return EXIT_FAILURE;
  }
  const LaneStats stats = engine.lane().stats();
  std::printf("%zu pages fetched, %lu reads, %lu index looks\n",
              pages * static_cast<size_t>(rounds), stats.operations, stats.index_looks);
  return EXIT_SUCCESS;
}

}  // namespace
}  // namespace farpage

// "once": warms up and does no more, so that the difference of two runs is the warm fetches alone.
int main(int count, char** arguments) {
  if (count != 4 && count != 5) return EXIT_FAILURE;
  return farpage::run(
      std::strtoul(arguments[1], nullptr, 10), std::strtoul(arguments[2], nullptr, 10),
      std::string_view(arguments[3]) != "once",
      count == 5 ? std::optional(std::strtoull(arguments[4], nullptr, 10)) : std::nullopt);
}
