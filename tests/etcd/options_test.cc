#include "etcd/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "tests/support/temp_dir.h"

namespace farpage::etcd {
namespace {

using testing::HasSubstr;

std::string refusal(const EtcdOptions& options) {
  const auto access = options.load();
  return access ? "" : access.error().message;
}

TEST(EtcdOptions, EndpointsAreAList) {
  EtcdOptions options;
  options.endpoints = "http://10.0.0.1:2379,http://etcd-2:2379/,http://[::1]:2379";
  options.fleet = "prod";
  const auto access = options.load();
  ASSERT_TRUE(access) << access.error().message;
  ASSERT_EQ(access->endpoints.size(), 3u);
  EXPECT_EQ(access->endpoints[1].host, "etcd-2");
  EXPECT_EQ(access->endpoints[2].host, "::1");
  EXPECT_EQ(access->prefix, "/farpage/prod/");
  EXPECT_EQ(access->tls, nullptr);
}

TEST(EtcdOptions, OtherSeparatorsThanCommasAreNamed) {
  EtcdOptions options;
  for (const char* endpoints : {"http://a:1;http://b:1", "http://a:1 http://b:1"}) {
    options.endpoints = endpoints;
    EXPECT_THAT(refusal(options), HasSubstr("separate entries by commas")) << endpoints;
  }
  options.endpoints = " ";
  EXPECT_THAT(refusal(options), HasSubstr("etcd.endpoints is empty"));
  options.endpoints = "http://a:1, http://b:1";
  EXPECT_EQ(refusal(options), "");
}

TEST(EtcdOptions, WhatCannotBeMeantIsRefused) {
  EtcdOptions options;
  for (const char* endpoints : {"10.0.0.1:2379", "tcp://10.0.0.1:2379", "http://", "http://x",
                                "http://x:y", "http://a:1,https://b:1", "http://a:1,,http://b:1"}) {
    options.endpoints = endpoints;
    EXPECT_THAT(refusal(options), HasSubstr("etcd.endpoints")) << endpoints;
  }
  options.endpoints = "http://a:1";
  for (const char* fleet : {"", "a/b", "a/tenants/", "/tenants/b", "a/tenants/b/c", "tenants/b"}) {
    options.fleet = fleet;
    EXPECT_THAT(refusal(options), HasSubstr("etcd.fleet"));
  }
  options.fleet = "x";
  options.tls_ca = "/x";
  EXPECT_THAT(refusal(options), HasSubstr("https://"));
  options.tls_ca = "";
  options.user = "u";
  EXPECT_THAT(refusal(options), HasSubstr("etcd.password_file"));
}

TEST(EtcdOptions, TenantsFleetHasAPlaceThatNoFleetCanHave) {
  EtcdOptions options;
  options.endpoints = "http://a:1";
  options.fleet = fleet_of_tenant("prod", "blue");
  EXPECT_EQ(options.fleet, "prod/tenants/blue");
  EXPECT_EQ(options.load().value().prefix, "/farpage/prod/tenants/blue/");
  options.fleet = fleet_of_tenant(std::string(64, 'x'), std::string(64, 'y'));
  EXPECT_TRUE(options.load().has_value());
}

TEST(EtcdOptions, PasswordIsOfItsOwnerAlone) {
  const TempDir folder;
  const std::string path = folder / "password";
  std::ofstream(path) << "secret\n";
  EtcdOptions options;
  options.endpoints = "http://a:1";
  options.user = "u";
  options.password_file = path;
  ASSERT_EQ(::chmod(path.c_str(), 0644), 0);
  EXPECT_THAT(refusal(options), HasSubstr(path));
  ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  const auto access = options.load();
  ASSERT_TRUE(access) << access.error().message;
  EXPECT_EQ(access->password.value(), "secret");
  std::ofstream(path, std::ios::trunc).flush();
  EXPECT_THAT(refusal(options), HasSubstr("etcd.password_file"));
}

}  // namespace
}  // namespace farpage::etcd
