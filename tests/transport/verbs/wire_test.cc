#include "transport/verbs/wire.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <cstring>

namespace farpage::verbs {
namespace {

Endpoint four(const char* host, uint16_t port) {
  Endpoint endpoint;
  auto& address = reinterpret_cast<sockaddr_in&>(endpoint.storage);
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  ::inet_pton(AF_INET, host, &address.sin_addr);
  endpoint.bytes = sizeof address;
  return endpoint;
}

Endpoint six(const char* host, uint16_t port) {
  Endpoint endpoint;
  auto& address = reinterpret_cast<sockaddr_in6&>(endpoint.storage);
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(port);
  ::inet_pton(AF_INET6, host, &address.sin6_addr);
  endpoint.bytes = sizeof address;
  return endpoint;
}

OfferWire small_offer() {
  return {make_channel_id(), {four("10.9.0.1", 7010), six("fd00::17", 65'535)}};
}

RegionWire small_region() {
  return {0x7f00'1234'5000, 3, {0xA, 0xFFFF'FFFF, 0}};
}

bool same(const Endpoint& one, const Endpoint& other) {
  return one.bytes == other.bytes && one.host() == other.host() && one.port() == other.port();
}

constexpr uint64_t kRegionBytes = 1 << 20;

TEST(VerbsWire, AnOfferComesAsItWent) {
  for (size_t paths = 1; paths <= kMaxDevices; ++paths) {
    OfferWire offer = small_offer();
    offer.endpoints.resize(paths, six("2001:db8::1", 1));
    const auto came = decode_offer(encode_offer(offer));
    ASSERT_TRUE(came);
    EXPECT_EQ(came->channel, offer.channel);
    ASSERT_EQ(came->endpoints.size(), paths);
    for (size_t i = 0; i < paths; ++i) EXPECT_TRUE(same(came->endpoints[i], offer.endpoints[i]));
  }
}

TEST(VerbsWire, ARegionComesAsItWent) {
  const RegionWire region = small_region();
  const auto came = decode_region(encode_region(region), kRegionBytes);
  ASSERT_TRUE(came);
  EXPECT_EQ(came->address, region.address);
  EXPECT_EQ(came->paths, region.paths);
  EXPECT_EQ(came->keys, region.keys);
}

TEST(VerbsWire, WhatIsTooShortOrTooLongIsRefused) {
  const std::string offer = encode_offer(small_offer());
  const std::string region = encode_region(small_region());
  for (size_t bytes = 0; bytes < offer.size(); ++bytes) {
    EXPECT_FALSE(decode_offer(offer.substr(0, bytes))) << bytes;
  }
  for (size_t bytes = 0; bytes < region.size(); ++bytes) {
    EXPECT_FALSE(decode_region(region.substr(0, bytes), kRegionBytes)) << bytes;
  }
  for (const size_t more : {1, 4, 20, 4096}) {
    EXPECT_FALSE(decode_offer(offer + std::string(more, '\0')));
    EXPECT_FALSE(decode_region(region + std::string(more, '\0'), kRegionBytes));
  }
  EXPECT_FALSE(decode_offer(region));
  EXPECT_FALSE(decode_region(offer, kRegionBytes));
}

TEST(VerbsWire, CountsThatAreImpossibleAreRefused) {
  for (const uint32_t count : {0u, 9u, 0x1000'0000u, ~0u}) {
    std::string offer = encode_offer(small_offer());
    std::string region = encode_region(small_region());
    std::memcpy(offer.data() + 4, &count, sizeof count);
    std::memcpy(region.data() + 4, &count, sizeof count);
    // As long as the 32 bits of its count say.
    offer.resize(24 + std::min<size_t>(count * 20u, 4096), '\1');
    region.resize(16 + std::min<size_t>(count * 4u, 4096), '\1');
    EXPECT_FALSE(decode_offer(offer)) << count;
    EXPECT_FALSE(decode_region(region, kRegionBytes)) << count;
  }
}

TEST(VerbsWire, EndpointsThatAreNoneAreRefused) {
  OfferWire offer = small_offer();
  offer.endpoints = {four("10.9.0.1", 0)};
  EXPECT_FALSE(decode_offer(encode_offer(offer)));
  for (const uint16_t family : {0, 1, 5, 10, 65'535}) {
    std::string text = encode_offer(small_offer());
    std::memcpy(text.data() + 24, &family, sizeof family);
    EXPECT_FALSE(decode_offer(text)) << family;
  }
}

TEST(VerbsWire, ARegionBeyondTheLastAddressIsRefused) {
  RegionWire region = small_region();
  region.address = UINT64_MAX - kRegionBytes;
  EXPECT_TRUE(decode_region(encode_region(region), kRegionBytes));
  ++region.address;
  EXPECT_FALSE(decode_region(encode_region(region), kRegionBytes));
}

// Every accepted message encodes to the bytes that it came from.
TEST(VerbsWire, EveryChangeOfAByteIsRefusedOrMeansWhatItSays) {
  const std::string offer = encode_offer(small_offer());
  const std::string region = encode_region(small_region());
  for (int value = 0; value < 256; ++value) {
    for (size_t at = 0; at < offer.size(); ++at) {
      std::string changed = offer;
      changed[at] = static_cast<char>(value);
      const auto came = decode_offer(changed);
      if (!came) continue;
      const auto again = decode_offer(encode_offer(*came));
      ASSERT_TRUE(again);
      EXPECT_EQ(again->channel, came->channel);
      ASSERT_EQ(again->endpoints.size(), came->endpoints.size());
      EXPECT_LE(came->endpoints.size(), kMaxDevices);
      for (size_t i = 0; i < came->endpoints.size(); ++i) {
        EXPECT_TRUE(same(again->endpoints[i], came->endpoints[i]));
      }
    }
    for (size_t at = 0; at < region.size(); ++at) {
      std::string changed = region;
      changed[at] = static_cast<char>(value);
      const auto came = decode_region(changed, kRegionBytes);
      if (came) {
        EXPECT_EQ(encode_region(*came), changed);
      }
    }
  }
}

}  // namespace
}  // namespace farpage::verbs
