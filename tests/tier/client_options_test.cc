#include <gtest/gtest.h>

#include "sim/sim_cluster.h"

namespace farpage {
namespace {

TEST(ClientOptions, DefaultsAreValid) {
  EXPECT_TRUE(ClientOptions{}.validate());
}

TEST(ClientOptions, ValuesOutOfRangeAreNamed) {
  const auto message = [](const ClientOptions& options) {
    const auto valid = options.validate();
    return valid ? "" : valid.error().message;
  };
  EXPECT_NE(message({.staging_bytes = 65 * kGiB}).find("client.staging_bytes"), std::string::npos);
  EXPECT_NE(message({.location_pages = uint64_t{1} << 40}).find("client.location_pages"),
            std::string::npos);
  EXPECT_NE(message({.connect_ms = 0}).find("client.connect_ms"), std::string::npos);
  EXPECT_NE(message({.rest_ms = 86'400'001}).find("client.rest_ms"), std::string::npos);
  EXPECT_EQ(message({.rest_ms = 0}), "");
  EXPECT_EQ(message({.staging_bytes = 0}), "");
}

TEST(ClientOptions, VerifyIsNoKeyOfAConfiguration) {
  ClientOptions options;
  for (const ConfigField& field : fields(options)) EXPECT_NE(std::string(field.key), "verify");
}

TEST(ClientOptions, ConnectingToNobodyEndsAtItsTime) {
  SimCluster cluster(1, {});
  cluster.end_node(NodeEnd::kStopped);
  const uint64_t before = cluster.now_ns();
  const auto client = cluster.connect(0, {.connect_ms = 300});
  ASSERT_FALSE(client);
  EXPECT_EQ(client.error().code, Code::kUnavailable);
  EXPECT_EQ(cluster.now_ns(), before + 300 * kMillisecond);
}

TEST(ClientOptions, ClientWithoutStagingReadsAndPutsNothing) {
  SimCluster cluster(1, {});
  const auto client = cluster.connect(0, {.staging_bytes = 0}).value();
  std::vector<std::byte> page(512);
  const Region region = client->register_memory({page.data(), page.size()}).value();
  const PutRequest request = {make_page_key("options", "a"), region.slice(0, 512)};
  const uint64_t deadline = cluster.now_ns() + kSecond;
  EXPECT_EQ(client->put({&request, 1}, deadline).wait()[0].code, Code::kUnavailable);
  EXPECT_FALSE(client->open_lane().value().contains(request.key, deadline));
}

TEST(ClientOptions, MoreStagingThanTheNodeGivesIsRefusedAtOnce) {
  SimClusterOptions options;
  options.node.max_staging_bytes = 4096;
  SimCluster cluster(1, options);
  const uint64_t before = cluster.now_ns();
  const auto client = cluster.connect(0, {.staging_bytes = 8192});
  ASSERT_FALSE(client);
  EXPECT_NE(client.error().message.find("max_staging_bytes"), std::string::npos);
  EXPECT_LT(cluster.now_ns(), before + kSecond);
}

}  // namespace
}  // namespace farpage
