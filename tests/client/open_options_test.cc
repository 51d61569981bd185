#include "client/open_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <fstream>

#include "tests/support/temp_dir.h"

namespace farpage {
namespace {

using testing::HasSubstr;

std::string refusal(std::string_view toml) {
  const auto options = OpenOptions::from_text(toml);
  return options ? "it was taken" : options.error().message;
}

TEST(OpenOptions, TextNamesNodesAndTheirUse) {
  const auto options = OpenOptions::from_text(R"(
    [client]
    node = "/run/farpage/node.sock"
    backend = "shm"
    lanes = 4
    queue_depth = 32
    staging_bytes = "16MiB"
  )");
  ASSERT_TRUE(options.has_value()) << options.error().message;
  EXPECT_EQ(options->node, "/run/farpage/node.sock");
  EXPECT_EQ(options->lanes.lanes, 4u);
  EXPECT_EQ(options->lanes.queue_depth, 32u);
  EXPECT_EQ(options->client.staging_bytes, 16 * kMiB);
  const std::array overrides = {std::string("client.lanes=7")};
  const auto overridden = OpenOptions::from_text("[client]\nembedded = true\nlanes = 4", overrides);
  ASSERT_TRUE(overridden.has_value()) << overridden.error().message;
  EXPECT_EQ(overridden->lanes.lanes, 7u);
}

TEST(OpenOptions, AFileSaysTheSameAndErrorsNameItsLine) {
  const TempDir folder;
  const std::string path = folder / "client.toml";
  std::ofstream(path) << "[client]\nembedded = true\n[embedded]\npage_bytes = \"2MiB\"\n";
  const auto options = OpenOptions::from_file(path);
  ASSERT_TRUE(options.has_value()) << options.error().message;
  EXPECT_TRUE(options->embedded);
  EXPECT_EQ(options->embedded_node.page_bytes, 2 * kMiB);
  std::ofstream(path) << "[client]\nembedded = 3\n";
  const auto wrong = OpenOptions::from_file(path);
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().message, HasSubstr(path + ":2"));
  EXPECT_FALSE(OpenOptions::from_file(folder / "none.toml"));
}

TEST(OpenOptions, OneWayToTheNodesAndNoMore) {
  EXPECT_THAT(refusal(""), HasSubstr("no memory node is named"));
  EXPECT_THAT(refusal("[client]\nnode = \"/a.sock\"\nembedded = true"),
              HasSubstr("leave out all but one"));
  EXPECT_THAT(refusal("[client]\nnode = \"/a.sock\"\n[cluster]\nnodes = \"a=/a.sock,b=/b.sock\""),
              HasSubstr("leave out all but one"));
  EXPECT_THAT(refusal("[client]\nembedded = true\n[etcd]\nendpoints = \"127.0.0.1:2379\""),
              HasSubstr("leave out all but one"));
}

TEST(OpenOptions, WhatCannotBeIsRefusedInASentence) {
  EXPECT_THAT(refusal("[client]\nnod = \"/a.sock\""), HasSubstr("did you mean 'node'"));
  EXPECT_THAT(refusal("[client]\nnode = \"10.0.0.1:7010\""), HasSubstr("10.0.0.1:7010"));
  EXPECT_THAT(refusal("[client]\nnode = \"tcp://a:1\"\nbackend = \"shm\""), HasSubstr("shm"));
  EXPECT_THAT(refusal("[client]\nembedded = true\nbackend = \"tcp\""), HasSubstr("tcp"));
  EXPECT_THAT(refusal("[client]\nembedded = true\nlanes = 0"), HasSubstr("client.lanes"));
  EXPECT_THAT(refusal("[client]\nembedded = true\nqueue_depth = 0"),
              HasSubstr("client.queue_depth"));
  EXPECT_THAT(refusal("[client]\nembedded = true\nspin_us = 1000001"),
              HasSubstr("client.spin_us is 1000001: choose 0 to 1000000"));
  for (const char* name : {"a/b", "../a", ".a", "a b", "a name of more than thirty-two letters"}) {
    EXPECT_THAT(
        refusal(std::string("[client]\nembedded = true\n[embedded]\nname = \"") + name + "\""),
        HasSubstr("embedded.name"));
  }
  EXPECT_THAT(refusal("[client]\nembedded = true\n[embedded]\npool_bytes = 100"),
              HasSubstr("the table [embedded]"));
  EXPECT_THAT(refusal("[client]\nembedded = true\n[embedded]\npage_bytes = 0"),
              HasSubstr("the table [embedded]"));
  EXPECT_THAT(refusal("[client]\nembedded = true\n[node]\npool_bytes = 1"), HasSubstr("node"));
  EXPECT_THAT(refusal("[client\n"), HasSubstr("configuration:1"));
}

TEST(OpenOptions, WhatIsFetchedAheadIsATableOfItsOwn) {
  const std::string embedded = "[client]\nembedded = true\n";
  EXPECT_FALSE(OpenOptions::from_text(embedded)->ahead.is_on());
  const auto options = OpenOptions::from_text(
      embedded + "[ahead]\npages = 64\npage_bytes = \"16KiB\"\nprefetcher = \"markov\"\n");
  ASSERT_TRUE(options.has_value()) << options.error().message;
  EXPECT_EQ(options->ahead.pages, 64u);
  EXPECT_EQ(options->ahead.page_bytes, 16 * kKiB);
  EXPECT_TRUE(options->ahead.lane_options().validate().has_value());
  const auto refused = [&](const char* line) { return refusal(embedded + "[ahead]\n" + line); };
  EXPECT_THAT(refused("pages = 65537"), HasSubstr("ahead.pages"));
  EXPECT_THAT(refused("heads = 0"), HasSubstr("ahead.heads"));
  EXPECT_THAT(refused("linger_ms = 3600001"), HasSubstr("ahead.linger_ms"));
  EXPECT_THAT(refused("prefetcher = \"markow\""), HasSubstr("markov"));
  EXPECT_THAT(refused("prefetcher = \"oracle\""), HasSubstr("future"));
}

TEST(OpenOptions, TheMemoryOnTheWayToGpusIsATableOfItsOwn) {
  const std::string embedded = "[client]\nembedded = true\n[gpu]\n";
  EXPECT_EQ(OpenOptions::from_text(embedded + "bounce_bytes = \"1MiB\"")->gpu.bounce_bytes, kMiB);
  EXPECT_EQ(OpenOptions::from_text(embedded + "straight_bytes = 0")->gpu.straight_bytes, 0u);
  for (const char* line : {"bounce_bytes = 65535", "bounce_bytes = \"65GiB\""}) {
    EXPECT_THAT(refusal(embedded + line), HasSubstr("choose 64KiB to 64GiB"));
  }
}

// As many as may be.
TEST(OpenOptions, EveryNumberOfPagesAheadIsOneThatALaneTakes) {
  AheadOptions options;
  options.pages = AheadOptions::kMostPages;
  ASSERT_TRUE(options.validate().has_value());
  EXPECT_TRUE(options.lane_options().validate().has_value());
  EXPECT_NE(options.make_prefetcher(), nullptr);
}

}  // namespace
}  // namespace farpage
