#include "base/config/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

namespace farpage {
namespace {

using ::testing::HasSubstr;

struct NodeSettings {
  uint64_t pool_bytes = 1;
  uint64_t lease_ms = 50;
  bool evict = false;
  std::string socket = "farpage.sock";

  std::vector<ConfigField> fields() {
    return {{"pool_bytes", &pool_bytes},
            {"lease_ms", &lease_ms},
            {"evict", &evict},
            {"socket", &socket}};
  }
};

class ConfigTest : public ::testing::Test {
 protected:
  ConfigTest()
      : path_(::testing::TempDir() + "config_test." + std::to_string(::getpid()) + ".toml") {}
  ~ConfigTest() override { std::remove(path_.c_str()); }

  Result<void> load(const std::string& text, const std::vector<std::string>& overrides = {}) {
    std::ofstream(path_, std::ios::binary) << text;
    return load_path(path_, overrides);
  }

  Result<void> load_path(const std::string& path, const std::vector<std::string>& overrides = {}) {
    Result<Config> config = Config::load(path, overrides);
    if (!config) return tl::unexpected(config.error());
    if (auto read = config->read("node", node_.fields()); !read) return read;
    const std::vector<ConfigField> fetch_fields = {{"batch", &batch_}};
    if (auto read = config->read("bench.fetch", fetch_fields); !read) return read;
    return config->finish();
  }

  // The message without the path of the temporary file.
  std::string message(const Result<void>& result) const {
    if (result) return "no error";
    std::string text = result.error().message;
    if (const size_t at = text.find(path_); at != std::string::npos) {
      text.replace(at, path_.size(), "FILE");
    }
    return text;
  }

  std::string path_;
  NodeSettings node_;
  uint64_t batch_ = 0;
};

TEST_F(ConfigTest, ReadsEveryTypeAndLeavesTheRestAtItsDefault) {
  ASSERT_TRUE(load("[node]\npool_bytes = \"4GiB\"\nevict = true\n[bench.fetch]\nbatch = 64\n"));
  EXPECT_EQ(node_.pool_bytes, uint64_t{4} << 30);
  EXPECT_TRUE(node_.evict);
  EXPECT_EQ(node_.lease_ms, 50u);
  EXPECT_EQ(node_.socket, "farpage.sock");
  EXPECT_EQ(batch_, 64u);
}

TEST_F(ConfigTest, AnEmptyFileAndNoFileAreFine) {
  EXPECT_TRUE(load(""));
  EXPECT_TRUE(load_path(""));
}

TEST_F(ConfigTest, BytesMayBeANumberToo) {
  ASSERT_TRUE(load("[node]\npool_bytes = 1_048_576\n"));
  EXPECT_EQ(node_.pool_bytes, 1048576u);
}

TEST_F(ConfigTest, OverridesWin) {
  ASSERT_TRUE(
      load("[node]\nlease_ms = 5\nsocket = \"a\"\n",
           {"node.lease_ms=6", "node.lease_ms=7", "node.evict=true", "node.pool_bytes=1.5MiB",
            "node.socket=/run/my node.sock", "bench.fetch.batch=3"}));
  EXPECT_EQ(node_.lease_ms, 7u);
  EXPECT_TRUE(node_.evict);
  EXPECT_EQ(node_.pool_bytes, 1572864u);
  EXPECT_EQ(node_.socket, "/run/my node.sock");
  EXPECT_EQ(batch_, 3u);
}

TEST_F(ConfigTest, AnOverrideMayBeQuotedOrEmptyOrHoldAnEqualsSign) {
  ASSERT_TRUE(load_path("", {"node.socket=\"5\""}));
  EXPECT_EQ(node_.socket, "5");
  ASSERT_TRUE(load_path("", {"node.socket="}));
  EXPECT_EQ(node_.socket, "");
  ASSERT_TRUE(load_path("", {"node.socket=a=b"}));
  EXPECT_EQ(node_.socket, "a=b");
  ASSERT_TRUE(load_path("", {"node.socket=5\nlease_ms=6"}));
  EXPECT_EQ(node_.socket, "5\nlease_ms=6");
  EXPECT_EQ(node_.lease_ms, 50u);
}

TEST_F(ConfigTest, ABrokenFileSaysLineAndColumn) {
  EXPECT_THAT(message(load("[node]\nlease_ms = = 5\n")), HasSubstr("FILE:2:12: "));
  EXPECT_THAT(message(load("[node]\nlease_ms = 1\nlease_ms = 2\n")), HasSubstr("FILE:3:"));
  EXPECT_THAT(message(load("[node]\nlease_ms = 99999999999999999999\n")), HasSubstr("FILE:2:"));
  EXPECT_THAT(message(load(std::string("\xff\xfe\0", 3))), HasSubstr("FILE:1:1: "));
  EXPECT_THAT(message(load("a = " + std::string(100'000, '['))), HasSubstr("FILE:1:"));
}

TEST_F(ConfigTest, AWrongTypeSaysWhatWasExpected) {
  EXPECT_EQ(message(load("[node]\n\nlease_ms = \"5\"\n")),
            "FILE:3: node.lease_ms must be a whole number, not \"5\"");
  EXPECT_EQ(
      message(load("[node]\nlease_ms = 5.0\n")),
      "FILE:2: node.lease_ms must be a whole number, not a number with a fraction or an exponent");
  EXPECT_EQ(
      message(load("[node]\npool_bytes = \"4 gigs\"\n")),
      "FILE:2: node.pool_bytes must be a whole number of bytes or a size such as \"64KiB\", not "
      "\"4 gigs\"");
  EXPECT_EQ(message(load("[node]\nevict = 1\n")),
            "FILE:2: node.evict must be true or false, not 1");
  EXPECT_EQ(message(load("[node]\nsocket = true\n")),
            "FILE:2: node.socket must be a string in quotes, not true");
  EXPECT_EQ(message(load("[node]\nsocket = [\"a\"]\n")),
            "FILE:2: node.socket must be a string in quotes, not an array");
  EXPECT_EQ(message(load("[node]\nsocket = 2026-01-01\n")),
            "FILE:2: node.socket must be a string in quotes, not a date or time");
}

TEST_F(ConfigTest, NegativeNumbersAreRefused) {
  EXPECT_EQ(message(load("[node]\nlease_ms = -5\n")),
            "FILE:2: node.lease_ms must not be negative, and is -5");
  EXPECT_EQ(message(load_path("", {"node.pool_bytes=-1"})),
            "--set node.pool_bytes=-1: node.pool_bytes must not be negative, and is -1");
  EXPECT_THAT(message(load_path("", {"node.pool_bytes=-1KiB"})), HasSubstr("not \"-1KiB\""));
}

TEST_F(ConfigTest, AnUnknownKeyNamesTheNearestKnownOne) {
  EXPECT_EQ(message(load("[node]\nlease_ms = 5\npol_bytes = 5\n")),
            "FILE:3: unknown key 'pol_bytes' in [node]; did you mean 'pool_bytes'?");
  EXPECT_EQ(message(load_path("", {"node.evicts=true"})),
            "--set node.evicts=true: unknown key 'evicts' in [node]; did you mean 'evict'?");
}

TEST_F(ConfigTest, AnUnknownKeyThatIsNearNothingNamesNone) {
  EXPECT_EQ(message(load("[node]\ntemperature = 5\n")),
            "FILE:2: unknown key 'temperature' in [node]");
  EXPECT_EQ(message(load("[node]\nx = 5\n")), "FILE:2: unknown key 'x' in [node]");
}

TEST_F(ConfigTest, AnUnknownTableNamesTheNearestKnownOne) {
  EXPECT_EQ(message(load("[nodes]\nlease_ms = 5\n")),
            "FILE:1: unknown table [nodes]; did you mean 'node'?");
  EXPECT_EQ(message(load("\n[bench.fetsh]\n")),
            "FILE:2: unknown table [bench.fetsh]; did you mean 'bench.fetch'?");
  EXPECT_EQ(message(load("[weather]\n")), "FILE:1: unknown table [weather]");
  EXPECT_EQ(message(load("[node.pool_bytes]\n")), "FILE:1: unknown table [node.pool_bytes]");
}

TEST_F(ConfigTest, KeysOutsideOfTheirTable) {
  EXPECT_EQ(message(load("lease_ms = 5\n")), "FILE:1: unknown key 'lease_ms' outside of any table");
  EXPECT_EQ(message(load("node = 5\n")),
            "FILE:1: node must be a table: write [node], and its keys below it");
  EXPECT_THAT(message(load("[[node]]\nlease_ms = 5\n")), HasSubstr("node must be a table"));
  EXPECT_EQ(message(load("[bench]\nbatch = 5\n")), "FILE:2: unknown key 'batch' in [bench]");
}

TEST_F(ConfigTest, WhatAnErrorRepeatsIsShort) {
  const std::string enormous(500'000, 'x');
  EXPECT_LT(message(load("[node]\nlease_ms = \"" + enormous + "\"\n")).size(), 200u);
  EXPECT_LT(message(load("[node]\n" + enormous + " = 5\n")).size(), 200u);
  EXPECT_LT(message(load("[" + enormous + "]\n")).size(), 200u);
  EXPECT_LT(message(load_path("", {"node.lease_ms=" + enormous})).size(), 400u);
}

TEST_F(ConfigTest, AMalformedOverrideSaysHowToWriteIt) {
  for (const char* text : {"", "node", "node=5", "node.lease_ms", "=5", ".lease_ms=5", "node.=5"}) {
    EXPECT_EQ(message(load_path("", {text})),
              std::string("--set ") + text + ": write it as table.key=value");
  }
}

TEST_F(ConfigTest, AFileThatCannotBeReadSaysWhy) {
  const std::string missing = ::testing::TempDir() + "no/such/file.toml";
  Result<void> result = load_path(missing);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::kNotFound);
  EXPECT_THAT(result.error().message, HasSubstr(missing));
  EXPECT_THAT(message(load_path(::testing::TempDir())), HasSubstr("Is a directory"));
  EXPECT_THAT(message(load_path("/dev/zero")), HasSubstr("longer than 1 MiB"));
}

TEST_F(ConfigTest, ASecondReadOfTheSameTableAddsItsKeys) {
  const std::vector<std::string> overrides = {"node.lease_ms=5", "node.seed=6"};
  Result<Config> config = Config::load("", overrides);
  ASSERT_TRUE(config);
  uint64_t seed = 0;
  const std::vector<ConfigField> more = {{"seed", &seed}};
  ASSERT_TRUE(config->read("node", node_.fields()));
  EXPECT_THAT(message(config->finish()), HasSubstr("unknown key 'seed'"));
  ASSERT_TRUE(config->read("node", more));
  EXPECT_TRUE(config->finish());
  EXPECT_EQ(seed, 6u);
}

TEST_F(ConfigTest, TablesOfOthersMayBeLeftAlone) {
  const auto finish_own = [this](const std::string& text) -> Result<void> {
    std::ofstream(path_, std::ios::binary) << text;
    Result<Config> config = Config::load(path_, {});
    if (!config) return tl::unexpected(config.error());
    if (auto read = config->read("node", node_.fields()); !read) return read;
    return config->finish_own();
  };
  EXPECT_TRUE(finish_own("[other]\nkey = 1\n[node]\nlease_ms = 7\n"));
  EXPECT_EQ(node_.lease_ms, 7u);
  EXPECT_THAT(message(finish_own("[other]\nkey = 1\n[node]\nleas_ms = 7\n")),
              HasSubstr("unknown key 'leas_ms' in [node]"));
}

}  // namespace
}  // namespace farpage
