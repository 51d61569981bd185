#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "backends/options.h"
#include "base/config/config.h"
#include "client/fleet/cluster_options.h"
#include "client/fleet/etcd_fleet.h"
#include "client/open_options.h"
#include "net/security_options.h"
#include "node/settings/options.h"

namespace farpage {
namespace {

std::string config_path(const std::string& name) {
  return std::string(FARPAGE_CONFIGS) + "/" + name;
}

template <typename T>
T value_of(const ConfigField& field) {
  return *std::get<T*>(field.target);
}

std::string as_text(const ConfigField& field) {
  if (std::holds_alternative<uint64_t*>(field.target))
    return std::to_string(value_of<uint64_t>(field));
  if (std::holds_alternative<bool*>(field.target)) return value_of<bool>(field) ? "true" : "false";
  return value_of<std::string>(field);
}

void spoil(const ConfigField& field) {
  if (const auto* number = std::get_if<uint64_t*>(&field.target)) **number = 12'345;
  if (const auto* flag = std::get_if<bool*>(&field.target)) **flag = !**flag;
  if (const auto* text = std::get_if<std::string*>(&field.target)) **text = "spoiled";
}

Config load(const std::string& name) {
  auto config = Config::load(config_path(name), {});
  if (!config) throw std::runtime_error(config.error().message);
  return std::move(*config);
}

// The table names every key, with the default; `options` has been read from it.
template <typename Options>
void expect_defaults(Config& config, const std::string& table, Options& options) {
  Options defaults;
  const std::vector<ConfigField> expected = fields(defaults);
  const std::vector<ConfigField> found = fields(options);
  for (const ConfigField& field : found) spoil(field);
  const auto read = config.read(table, found);
  ASSERT_TRUE(read.has_value()) << read.error().message;
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(as_text(found[i]), as_text(expected[i])) << table << "." << expected[i].key;
  }
}

template <typename Options>
void expect_defaults(Config& config, const std::string& table) {
  Options options;
  expect_defaults(config, table, options);
}

TEST(Configs, NodeTomlShowsEveryDefault) {
  Config config = load("node.toml");
  NodeOptions node;
  expect_defaults(config, "node", node);
  expect_defaults<NodeCluster>(config, "cluster");
  expect_defaults<NodeEtcd>(config, "etcd");
  expect_defaults<NodeSecurity>(config, "security");
  expect_defaults<RdmaOptions>(config, "rdma");
  expect_defaults<NodeUcx>(config, "ucx");
  const auto finished = config.finish();
  EXPECT_TRUE(finished.has_value()) << finished.error().message;
  EXPECT_TRUE(node.validate().has_value());
}

TEST(Configs, ClientTomlShowsEveryDefault) {
  Config config = load("client.toml");
  OpenOptions client;
  expect_defaults(config, "client", client);
  expect_defaults(config, "ahead", client.ahead);
  expect_defaults(config, "gpu", client.gpu);
  expect_defaults(config, "embedded", client.embedded_node);
  expect_defaults(config, "cluster", client.cluster);
  expect_defaults(config, "etcd", client.etcd);
  expect_defaults(config, "security", client.security);
  expect_defaults(config, "rdma", client.backends.rdma);
  expect_defaults<ClientUcx>(config, "ucx");
  const auto finished = config.finish();
  EXPECT_TRUE(finished.has_value()) << finished.error().message;
  EXPECT_TRUE(client.validate_use().has_value());
}

TEST(Configs, AClientNeedsANodeBesideClientToml) {
  const auto none = OpenOptions::from_file(config_path("client.toml"));
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().code, Code::kInvalid);
  const std::array overrides = {std::string("client.embedded=true")};
  const auto embedded = OpenOptions::from_file(config_path("client.toml"), overrides);
  EXPECT_TRUE(embedded.has_value()) << embedded.error().message;
}

TEST(Configs, EveryFileHasATest) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(FARPAGE_CONFIGS)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"client.toml", "decode", "engines", "grafana.json",
                                             "node.toml"}));
}

}  // namespace
}  // namespace farpage
