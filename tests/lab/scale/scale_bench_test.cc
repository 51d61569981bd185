#include "lab/scale/scale_bench.h"

#include <gtest/gtest.h>

#include <boost/json/object.hpp>
#include <memory>
#include <vector>

#include "base/memory/mapping.h"
#include "base/random.h"
#include "sim/sim_cluster.h"

namespace farpage {
namespace {

constexpr uint64_t kNodes = 5;
constexpr uint64_t kKeys = 200;
constexpr uint64_t kSeed = 11;
constexpr uint64_t kPageBytes = 512;

// The keys that a sample of one thread draws.
std::vector<PageKey> keys_of(uint64_t seed, uint64_t count) {
  Random random(Random::mix(seed ^ Random::mix(1)));
  std::vector<PageKey> keys;
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t low = random.next();
    keys.push_back({low, random.next()});
  }
  return keys;
}

SimClusterOptions five_nodes() {
  SimClusterOptions options;
  options.nodes = kNodes;
  options.replicas = 2;
  options.uses_register = true;
  options.node.page_bytes = kPageBytes;
  options.node.pool_bytes = 2 * kKeys * (kPageBytes + sizeof(PageHeader));
  return options;
}

// Real nodes do as the sample says of a loss: they fill themselves with exactly as many pages.
TEST(ScaleBench, NodesFillThemselvesWithWhatTheSampleCounts) {
  const Epoch epoch = scale_epoch(kNodes, 2, kPageBytes, 1);
  const PlacementSample sample = sample_placement(epoch, kKeys, kSeed, {1}, 1);
  SimCluster cluster(1, five_nodes());
  cluster.world().run_until(cluster.now_ns() + kSecond);
  ASSERT_EQ(cluster.epochs()->current().epoch.members.size(), kNodes);
  const auto client = cluster.connect().value();
  Mapping memory = Mapping::anonymous(kPageBytes).value();
  const Region region = client->register_memory({memory.data(), memory.bytes()}).value();
  for (const PageKey& key : keys_of(kSeed, kKeys)) {
    const PutRequest request = {key, region.slice(0, kPageBytes)};
    ASSERT_EQ(client->put({&request, 1}, cluster.now_ns() + kSecond).wait()[0].code, Code::kOk);
  }
  std::vector<uint64_t> filled;
  for (uint64_t node = 0; node < kNodes; ++node) {
    filled.push_back(cluster.node_service(node).status().fleet.filled);
    EXPECT_EQ(cluster.node_service(node).status().slots_live, sample.held[node]) << node;
  }
  cluster.end_node(NodeEnd::kPowerLost, 0);
  cluster.world().run_until(cluster.now_ns() + 5 * kSecond);
  ASSERT_EQ(cluster.epochs()->current().epoch.members.size(), kNodes - 1);
  for (uint64_t node = 1; node < kNodes; ++node) {
    const FleetStatus status = cluster.node_service(node).status().fleet;
    EXPECT_EQ(status.filled - filled[node], sample.losses[0].received[node]) << node;
    EXPECT_EQ(status.to_fill, 0u) << node;
  }
}

TEST(ScaleBench, SmallFleetIsMeasuredAndReported) {
  ScaleOptions options;
  options.nodes = 32;
  options.clients = 50;
  options.pages = 1'000'000;
  options.lost = 3;
  options.keys_per_node = 1'000;
  options.keys = 20'000;
  std::vector<std::string> parts;
  const auto result =
      run_scale_bench(options, [&parts](const char* part) { parts.emplace_back(part); });
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(parts.size(), 7u);
  ASSERT_EQ(result->node_costs.size(), 3u);
  EXPECT_EQ(result->node_costs.back().nodes, 32u);
  EXPECT_EQ(result->node_costs.back().pages, 1'024u);
  const ScaleOutlook outlook = scale_outlook(options, *result);
  EXPECT_DOUBLE_EQ(outlook.pages_per_node, 1'000'000 * 2.0 / 32);
  EXPECT_DOUBLE_EQ(outlook.register_reads_per_s, 32 * 2.0);
  EXPECT_DOUBLE_EQ(outlook.told_pages, 62'500 / 31.0) << "one has left, and others were whole";
  EXPECT_NEAR(outlook.told_bytes, 62'500 * 40, 62'500 * 5) << "key, version, slot, length";
  EXPECT_NEAR(outlook.renewals_per_s, 50 + 31, 4) << "one a second of each client and member";
  ASSERT_EQ(outlook.repairs.size(), 2u);
  EXPECT_EQ(outlook.repairs[0].pages_gone, 0);
  EXPECT_NEAR(outlook.repairs[0].bytes, 1'000'000 * 2 / 32.0 * 65536,
              0.1 * outlook.repairs[0].bytes);
  EXPECT_NEAR(outlook.repairs[1].pages_gone, 1'000'000 * 3 * 2 / (32.0 * 31), 2'000);
  const auto json = scale_json({options, *result, "test"});
  EXPECT_EQ(json.at("extrapolated").at("repairs").as_array().size(), 2u);
  EXPECT_EQ(json.at("measured").at("news").at("clients").to_number<uint64_t>(), 50u);
  EXPECT_EQ(json.at("measured").at("crowds").at(2).at("clients").to_number<uint64_t>(), 500u);
  const auto& every_node = json.at("measured").at("every_node");
  EXPECT_EQ(every_node.at("cold").at("ready"), every_node.at("pages"));
  EXPECT_NE(scale_table({options, *result, "test"}).find("3 lost at once"), std::string::npos);
}

TEST(ScaleBench, OptionsOutOfRangeAreNamed) {
  const auto why = [](const auto& change) {
    ScaleOptions options;
    change(options);
    const auto valid = options.validate();
    return valid ? std::string() : valid.error().message;
  };
  EXPECT_EQ(why([](ScaleOptions&) {}), "");
  EXPECT_EQ(why([](ScaleOptions& options) { options.nodes = 1'024; }),
            "--nodes is 1024: choose 8 to 1023");
  EXPECT_EQ(why([](ScaleOptions& options) { options.nodes = options.replicas = 8; }),
            "--replicas is 8: choose 1 to 4");
  EXPECT_EQ(why([](ScaleOptions& options) { options.lost = 998; }),
            "--lost is 998: choose 1 to 997");
  EXPECT_EQ(why([](ScaleOptions& options) { options.keys = 0; }),
            "--keys is 0: choose 1000 to 1000000000000");
}

// Beside each other, as etcd's gateway writes them.
TEST(ScaleBench, RecordsGrowByTheNodeAndFitEtcdsRequest) {
  const RecordCost few = measure_records(100);
  const RecordCost many = measure_records(1'000);
  EXPECT_NEAR(static_cast<double>(many.epoch_bytes), 10.0 * static_cast<double>(few.epoch_bytes),
              1'000);
  EXPECT_LT(many.epoch_bytes, 1'536 * kKiB) << "etcd's --max-request-bytes";
  EXPECT_GT(many.read_bytes, many.epoch_bytes * 4 / 3);
}

}  // namespace
}  // namespace farpage
