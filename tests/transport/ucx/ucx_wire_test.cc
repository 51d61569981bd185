#include <gtest/gtest.h>

#include "transport/ucx/paths.h"
#include "transport/ucx/wire.h"

namespace farpage::ucx {
namespace {

// As UCX packs it: domains 0 and 2, host memory, keys of 3 and 0 bytes.
std::string packed_key() {
  return std::string(
      "\x05\0\0\0\0\0\0\0\0\x03"
      "abc\0",
      14);
}

std::string region_with_key(const std::string& key) {
  return pack_region({.generation = 7, .address = 4096, .bytes = 100, .key = key});
}

TEST(UcxWire, OffersAndRegionsComeBackAsTheyWere) {
  Offer offer = {{}, ChannelPurpose::kStage, "address"};
  offer.channel.fill(std::byte{9});
  const auto parsed = parse_offer(pack_offer(offer));
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(parsed->channel, offer.channel);
  EXPECT_EQ(parsed->purpose, ChannelPurpose::kStage);
  EXPECT_EQ(parsed->address, "address");
  const auto region = parse_region(region_with_key(packed_key()));
  ASSERT_TRUE(region.has_value());
  EXPECT_EQ(region->generation, 7u);
  EXPECT_EQ(region->address, 4096u);
  EXPECT_EQ(region->bytes, 100u);
  EXPECT_EQ(region->key, packed_key());
  EXPECT_EQ(region->domains, 5u);
  EXPECT_EQ(key_part(*region, 0), "abc");
  EXPECT_EQ(key_part(*region, 2), "");
}

// Its checksum is right, so only its form can tell.
TEST(UcxWire, AKeyThatEndsElsewhereThanItSaysIsRefused) {
  const std::string key = packed_key();
  for (size_t length = 0; length < key.size(); ++length) {
    EXPECT_FALSE(parse_region(region_with_key(key.substr(0, length))).has_value()) << length;
  }
  EXPECT_FALSE(parse_region(region_with_key(key + 'x')).has_value());
  std::string longer = key;
  longer[9] = '\xff';
  EXPECT_FALSE(parse_region(region_with_key(longer)).has_value());
  std::string more_domains = key;
  more_domains[0] = '\x07';
  EXPECT_FALSE(parse_region(region_with_key(more_domains)).has_value());
}

TEST(UcxWire, ImpossibleRegionsAreRefused) {
  const auto parses = [](uint64_t address, uint64_t bytes) {
    return parse_region(
               pack_region(
                   {.generation = 1, .address = address, .bytes = bytes, .key = packed_key()}))
        .has_value();
  };
  EXPECT_TRUE(parses(4096, kMaxRegionBytes));
  EXPECT_FALSE(parses(4096, 0));
  EXPECT_FALSE(parses(4096, kMaxRegionBytes + 1));
  EXPECT_FALSE(parses(UINT64_MAX - 50, 100));
}

constexpr const char* kSharedMemoryAndTcp =
    "#                 lane[0]:  1:tcp/lo.0 md[1]                -> md[1]/tcp/sysdev[255] am "
    "am_bw#0 wireup\n"
    "#                 lane[1]:  4:posix/memory.0 md[3]          -> md[2]/posix/sysdev[255]\n"
    "#                 am_send: 0..<egr/short>..93..<egr/bcopy>..8256..<rndv>..(inf)\n"
    "#                  put[1]: 0..<short>..4294967296..<bcopy>..(inf)\n"
    "#                  get[1]: 0..<bcopy>..(inf)\n";

TEST(UcxLanes, TheReaderIsTheLaneThatReadsItselfAndReachesTheMemory) {
  const UcxLanes lanes{std::string(kSharedMemoryAndTcp)};
  ASSERT_EQ(lanes.all().size(), 2u);
  EXPECT_EQ(lanes.emulated_name(), "tcp/lo");
  EXPECT_EQ(lanes.reader(1u << 1), nullptr);
  EXPECT_EQ(lanes.reader(1u << 3), nullptr);
  ASSERT_NE(lanes.reader(1u << 2 | 1u << 1), nullptr);
  EXPECT_EQ(lanes.reader(1u << 2)->name, "posix/memory");
  EXPECT_TRUE(lanes.reader(1u << 2)->is_shared_memory());
}

TEST(UcxLanes, WhatIsNotUnderstoodCountsAsEmulated) {
  for (const char* text : {"", "#  get[0]: 0..<bcopy>..(inf)\n", "lane zero: rc, honest\n"}) {
    const UcxLanes lanes{std::string(text)};
    EXPECT_EQ(lanes.reader(~uint64_t{0}), nullptr) << text;
    EXPECT_EQ(lanes.emulated_name(), "an unknown path");
  }
}

}  // namespace
}  // namespace farpage::ucx
