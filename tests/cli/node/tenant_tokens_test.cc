#include "cli/node/tenant_tokens.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "tests/support/temp_dir.h"

namespace farpage {
namespace {

class TenantTokensTest : public testing::Test {
 protected:
  // In the place of the file that was there, as tools renew.
  std::string write(const std::string& name, const std::string& token) {
    std::string path = dir_ / name;
    std::ofstream(path + ".new") << token;
    EXPECT_EQ(::chmod((path + ".new").c_str(), 0600), 0);
    std::filesystem::rename(path + ".new", path);
    return path;
  }
  TenantTokens load() {
    std::vector<TenantOptions> tenants(3);
    for (size_t i = 0; i < tenants.size(); ++i) {
      tenants[i].name = std::string(1, static_cast<char>('a' + i));
      tenants[i].token_file = write(tenants[i].name, tenants[i].name + "'s first token, of many");
    }
    return TenantTokens::load("", tenants).value();
  }
  static bool becomes(const WatchedSecret<SharedToken>& token, const std::string& secret) {
    const uint64_t deadline_ns = boottime_clock().now_ns() + 30 * kSecond;
    while (token.value().secret != secret) {
      if (boottime_clock().now_ns() > deadline_ns) return false;
      read_secrets_again();
      std::this_thread::yield();
    }
    return true;
  }

  TempDir dir_;
};

TEST_F(TenantTokensTest, OneThatIsAnothersStaysOutAndTheOthersAreTaken) {
  const TenantTokens tokens = load();
  write("a", "b's first token, of many");
  write("c", "c's second token, of many");
  EXPECT_TRUE(becomes(tokens.tenants[2], "c's second token, of many"));
  EXPECT_EQ(tokens.tenants[0].value().secret, "a's first token, of many");
  EXPECT_EQ(tokens.tenants[1].value().secret, "b's first token, of many");
  write("b", "b's second token, of many");
  EXPECT_TRUE(becomes(tokens.tenants[0], "b's first token, of many")) << "it is nobody's now";
}

TEST_F(TenantTokensTest, OneThatCannotBeUsedLeavesTheOthersTheirs) {
  const TenantTokens tokens = load();
  write("a", "short");
  write("b", "b's second token, of many");
  EXPECT_TRUE(becomes(tokens.tenants[1], "b's second token, of many"));
  EXPECT_EQ(tokens.tenants[0].value().secret, "a's first token, of many");
}

}  // namespace
}  // namespace farpage
