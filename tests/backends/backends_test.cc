#include "backends/backends.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "doctor/finding/backend_set.h"
#include "doctor/finding/wanted.h"

namespace farpage {
namespace {

constexpr const char* kTcpAddress = "tcp://127.0.0.1:7000";
constexpr const char* kSocketPath = "/run/farpage/node.sock";

Result<std::string> chosen(const std::string& asked, const std::string& address) {
  return choose_backend(asked, *parse_address(address)).map([](const BackendRegistration* backend) {
    return std::string(backend->name());
  });
}

// Empty: it is not refused.
template <typename T>
std::string refusal(const Result<T>& result) {
  return result ? "" : result.error().message;
}

TEST(Backends, TheDoctorKnowsEveryName) {
  for (const BackendRegistration* backend : every_backend()) {
    EXPECT_EQ(doctor::find_check(backend->name()), backend->host) << backend->name();
  }
}

TEST(Backends, EveryFabricSaysItsName) {
  const BackendOptions options;
  const ClientCredentials credentials;
  for (const BackendRegistration* backend : every_backend()) {
    if (!backend->is_built()) continue;
    const auto made = backend->make({options, credentials, 1});
    if (made) {
      EXPECT_EQ(made->fabric->capabilities().backend, backend->name());
      EXPECT_EQ(static_cast<bool>(made->take_data), backend->nodes_at == NodesAt::kTcpPort);
    } else {
      EXPECT_FALSE(backend->host->runs_anywhere) << made.error().message;
    }
  }
}

TEST(Backends, WhatIsFoundIsBuilt) {
  for (const BackendRegistration* backend : every_backend()) {
    const auto found = find_backend(backend->name());
    if (backend->is_built()) {
      ASSERT_TRUE(found.has_value()) << found.error().message;
      EXPECT_EQ(*found, backend);
      EXPECT_NE(built_backends().find(backend->name()), std::string::npos);
      continue;
    }
    ASSERT_FALSE(found.has_value());
    EXPECT_EQ(found.error().message,
              fmt::format("this farpage was built without the backend '{}': build it with -D{}=ON",
                          backend->name(), backend->cmake_option));
    EXPECT_EQ(built_backends().find(backend->name()), std::string::npos);
  }
  EXPECT_EQ(refusal(find_backend("carrier")),
            "unknown backend 'carrier'; there are: " + built_backends());
  EXPECT_EQ(refusal(find_backend("cuda")),
            "unknown backend 'cuda'; there are: " + built_backends());
}

TEST(Backends, AnAddressHasItsNaturalOne) {
  EXPECT_EQ(chosen("", kTcpAddress), "tcp");
  EXPECT_EQ(chosen("", kSocketPath), "shm");
}

TEST(Backends, OneThatDoesNotGoWithTheAddressIsRefused) {
  EXPECT_EQ(chosen("tcp", kTcpAddress), "tcp");
  EXPECT_EQ(chosen("shm", kSocketPath), "shm");
  EXPECT_EQ(refusal(chosen("shm", kTcpAddress)),
            "tcp://127.0.0.1:7000 does not go with the backend 'shm', which needs the path of a "
            "Unix socket: give one, or choose --backend tcp");
  EXPECT_EQ(refusal(chosen("tcp", kSocketPath)),
            "/run/farpage/node.sock does not go with the backend 'tcp', which needs an address "
            "such as tcp://HOST:PORT: give one, or choose --backend shm");
  for (const BackendRegistration* backend : every_backend()) {
    const std::string name(backend->name());
    if (!backend->is_built() || backend == &kShmBackend || backend == &kTcpBackend) continue;
    EXPECT_EQ(chosen(name, kTcpAddress), name) << "only the control connection goes there";
    EXPECT_EQ(chosen(name, kSocketPath), name);
  }
}

TEST(Backends, OnlyUcxRefusesTenants) {
  for (const BackendRegistration* backend : every_backend()) {
    EXPECT_EQ(backend->why_no_tenants != nullptr, backend == &kUcxBackend) << backend->name();
  }
}

Config with_overrides(const std::vector<std::string>& overrides) {
  return *Config::load("", overrides);
}

TEST(Backends, NodesAndClientsReadTheirTables) {
  BackendOptions node;
  Config of_node = with_overrides({"rdma.devices=a, b", "ucx.trusted_clients=true"});
  EXPECT_TRUE(node.read_node(of_node).has_value());
  EXPECT_TRUE(of_node.finish().has_value());
  EXPECT_EQ(node.rdma.device_list(), (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(node.ucx.trusted_clients);

  BackendOptions client;
  Config of_client = with_overrides({"rdma.spin_us=7", "ucx.devices=c"});
  EXPECT_TRUE(client.read_client(of_client).has_value());
  EXPECT_TRUE(of_client.finish().has_value());
  EXPECT_EQ(client.rdma.spin_us, 7u);
  EXPECT_EQ(client.ucx.devices, "c");
  Config trusting = with_overrides({"ucx.trusted_clients=true"});
  EXPECT_FALSE(client.read_client(trusting).and_then([&] { return trusting.finish(); }))
      << "that is a node's to say";
}

TEST(Backends, ListsHaveCommasBetweenTheirEntries) {
  for (const char* setting :
       {"rdma.devices=a;b", "rdma.devices=a b", "ucx.devices=a:1;b:1", "ucx.transports=rc posix"}) {
    BackendOptions options;
    Config node = with_overrides({setting});
    const auto read = options.read_node(node);
    ASSERT_FALSE(read) << setting;
    EXPECT_NE(read.error().message.find("separate entries by commas"), std::string::npos);
  }
  BackendOptions options;
  Config node = with_overrides({"ucx.devices=a:1, b:1"});
  ASSERT_TRUE(options.read_node(node));
  EXPECT_EQ(options.ucx.devices, "a:1,b:1") << "as UCX reads it";
}

TEST(Backends, AnOwnNodeIsToldWhatItsProgramWasTold) {
  BackendOptions told;
  told.rdma.devices = "mlx5_0";
  told.ucx.transports = "posix";
  told.ucx.devices = "mlx5_0:1";
  told.ucx.allow_emulated = true;
  std::vector<std::string> overrides;
  for (const BackendRegistration* backend : every_backend()) {
    if (!backend->table) continue;
    for (const auto& [key, value] : backend->table->settings_of_own_node(told)) {
      overrides.push_back(fmt::format("{}={}", key, value));
    }
  }
  Config config = with_overrides(overrides);
  BackendOptions node;
  ASSERT_TRUE(node.read_node(config).has_value());
  EXPECT_TRUE(config.finish().has_value());
  EXPECT_EQ(node.rdma.devices, told.rdma.devices);
  EXPECT_EQ(node.ucx.transports, told.ucx.transports);
  EXPECT_EQ(node.ucx.devices, told.ucx.devices);
  EXPECT_TRUE(node.ucx.allow_emulated);
  EXPECT_TRUE(node.ucx.trusted_clients) << "it serves the program that started it";
}

TEST(Backends, TheDoctorIsToldWhatTheTablesSay) {
  BackendOptions options;
  options.rdma.devices = "mlx5_0,mlx5_1";
  doctor::Wanted wanted;
  for (const BackendRegistration* backend : every_backend()) {
    if (backend->tell_doctor != nullptr) backend->tell_doctor(options, wanted);
  }
  EXPECT_EQ(wanted.rdma_devices, options.rdma.device_list());
  EXPECT_TRUE(wanted.ucx_module.ends_with("lib/farpage/libfarpage_ucx.so")) << wanted.ucx_module;
}

}  // namespace
}  // namespace farpage
