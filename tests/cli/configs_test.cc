#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "backends/options.h"
#include "base/config/config.h"
#include "client/fleet/cluster_options.h"
#include "client/fleet/etcd_fleet.h"
#include "net/security_options.h"
#include "node/settings/options.h"
#include "tier/client.h"

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

// The file names every key of its tables, with the default, and nothing else.
template <typename Options, typename Security, typename Ucx, typename Cluster, typename Etcd>
void expect_documents_defaults(const std::string& name, const std::string& table) {
  Options defaults;
  Options loaded;
  Security no_security;
  Security security;
  auto config = Config::load(config_path(name), {});
  ASSERT_TRUE(config.has_value()) << config.error().message;
  const auto compare = [&](const std::string& of, const std::vector<ConfigField>& found,
                           const std::vector<ConfigField>& expected) {
    for (const ConfigField& field : found) spoil(field);
    auto read = config->read(of, found);
    ASSERT_TRUE(read.has_value()) << read.error().message;
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(as_text(found[i]), as_text(expected[i])) << name << ": " << expected[i].key;
    }
  };
  compare(table, fields(loaded), fields(defaults));
  compare("security", fields(security), fields(no_security));
  RdmaOptions no_rdma;
  RdmaOptions rdma;
  compare("rdma", fields(rdma), fields(no_rdma));
  Cluster no_cluster;
  Cluster cluster;
  compare("cluster", fields(cluster), fields(no_cluster));
  Etcd no_etcd;
  Etcd etcd;
  compare("etcd", fields(etcd), fields(no_etcd));
  Ucx no_ucx;
  Ucx ucx;
  compare("ucx", fields(ucx), fields(no_ucx));
  auto finished = config->finish();
  ASSERT_TRUE(finished.has_value()) << finished.error().message;
  EXPECT_TRUE(loaded.validate().has_value());
}

TEST(Configs, NodeTomlShowsEveryDefault) {
  expect_documents_defaults<NodeOptions, NodeSecurity, NodeUcx, NodeCluster, NodeEtcd>("node.toml",
                                                                                       "node");
}

TEST(Configs, ClientTomlShowsEveryDefault) {
  expect_documents_defaults<ClientOptions, ClientSecurity, ClientUcx, ClusterOptions,
                            etcd::EtcdOptions>("client.toml", "client");
}

TEST(Configs, EveryFileHasATest) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(FARPAGE_CONFIGS)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names,
            (std::vector<std::string>{"client.toml", "decode", "grafana.json", "node.toml"}));
}

}  // namespace
}  // namespace farpage
