#include <gtest/gtest.h>

#include <vector>

#include "sim/sim_cluster.h"
#include "tests/support/engine.h"

namespace farpage {
namespace {

constexpr uint64_t kPageBytes = 16 * kKiB;
constexpr size_t kPages = Lane::kWindow;

SimClusterOptions options() {
  SimClusterOptions options;
  options.node.page_bytes = kPageBytes;
  options.node.pool_bytes = 2 * kPages * (kPageBytes + sizeof(PageHeader));
  options.node.lease_ms = 60'000;
  options.node.reuse_ms = 1'000;
  return options;
}

// An engine that computes for milliseconds between the layers of a step, and drives its lane only
// when it waits: how long its reads seemed to take then says nothing of the wire.
TEST(AbsentDriver, LeavesTheLaneItsWindow) {
  SimCluster cluster(1, options());
  const auto client = cluster.connect(0).value();
  Engine engine(*client, kPageBytes, kPages);
  std::vector<PageRequest> requests;
  for (size_t page = 0; page < kPages; ++page) {
    ASSERT_EQ(engine.put(test_key(page), page).code, Code::kOk);
    requests.push_back({test_key(page), 0, engine.slice(page)});
  }
  Lane& lane = engine.lane();
  std::vector<PageVerdict> verdicts(kPages);
  lane.fetch(requests, verdicts, engine.deadline()).wait();  // they are located now
  const auto half = [&](size_t from) {
    return lane.fetch(std::span(requests).subspan(from, kPages / 2),
                      std::span(verdicts).subspan(from, kPages / 2), engine.deadline());
  };
  for (int round = 0; round < 100; ++round) {
    Fetch first = half(0);
    cluster.world().run_until(cluster.now_ns() + 3 * kMillisecond);
    Fetch second = half(kPages / 2);
    first.wait();
    second.wait();
  }
  const uint64_t before = lane.stats().operations;
  Fetch all = lane.fetch(requests, verdicts, engine.deadline());
  EXPECT_EQ(lane.stats().operations - before, kPages);
  all.wait();
}

}  // namespace
}  // namespace farpage
