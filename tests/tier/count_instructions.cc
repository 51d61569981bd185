// Fetches warm pages over sim, for bench/instructions.py, which counts what runs inside of
// `counted_post` and `counted_poll` under callgrind: farpage_count_instructions PAGES BATCH
// once|twice
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "bench/cluster/sim_cluster.h"
#include "tests/support/engine.h"

namespace farpage {
namespace {

constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t kPatienceNs = kSecond;

SimClusterOptions options(uint64_t pages) {
  SimClusterOptions options;
  options.node.page_bytes = kPageBytes;
  options.node.pool_bytes = 2 * pages * (kPageBytes + sizeof(PageHeader));
  options.node.lease_ms = 60'000;
  options.node.reuse_ms = 1'000;
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

int run(size_t pages, size_t batch, bool counted) {
  SimCluster cluster(1, options(pages));
  ClientOptions client_options;
  client_options.verify = false;
  const auto client = cluster.connect(0, client_options).value();
  Engine engine(*client, kPageBytes, pages);
  std::vector<PageRequest> requests;
  for (size_t page = 0; page < pages; ++page) {
    if (engine.put(test_key(page), page).code != Code::kOk) return EXIT_FAILURE;
    requests.push_back({test_key(page), 0, engine.slice(page)});
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
  if (count != 4) return EXIT_FAILURE;
  return farpage::run(std::strtoul(arguments[1], nullptr, 10),
                      std::strtoul(arguments[2], nullptr, 10),
                      std::string_view(arguments[3]) != "once");
}
