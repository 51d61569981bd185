#include "transport/verbs/paths/path_health.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include "base/clock.h"

namespace farpage::verbs {
namespace {

Endpoint endpoint(const char* address, uint16_t port) {
  Endpoint made;
  auto& four = reinterpret_cast<sockaddr_in&>(made.storage);
  four.sin_family = AF_INET;
  four.sin_port = htons(port);
  EXPECT_EQ(::inet_pton(AF_INET, address, &four.sin_addr), 1);
  made.bytes = sizeof four;
  return made;
}

TEST(PathHealth, WhatHasNotBrokenMayBeDialledAtOnce) {
  PathHealth health;
  health.broke(endpoint("10.0.0.1", 7), 100);
  EXPECT_EQ(health.dial_ns(endpoint("10.0.0.2", 7)), 0u);
  EXPECT_EQ(health.dial_ns(endpoint("10.0.0.1", 8)), 0u);
}

TEST(PathHealth, EachFailureDoublesThePauseUpToHalfAMinute) {
  PathHealth health;
  const Endpoint where = endpoint("10.0.0.1", 7);
  uint64_t now = 5 * kSecond;
  for (const uint64_t pause_s : {1, 2, 4, 8, 16, 30, 30}) {
    health.broke(where, now);
    EXPECT_EQ(health.dial_ns(where), now + pause_s * kSecond);
    now = health.dial_ns(where);
  }
}

TEST(PathHealth, ManyChannelsThatBreakTogetherAreOneFailure) {
  PathHealth health;
  const Endpoint where = endpoint("10.0.0.1", 7);
  for (uint64_t channel = 0; channel < 64; ++channel) health.broke(where, kSecond + channel);
  EXPECT_EQ(health.dial_ns(where), 2 * kSecond);
}

TEST(PathHealth, PagesThatCameOverItClearItsName) {
  PathHealth health;
  const Endpoint where = endpoint("10.0.0.1", 7);
  health.broke(where, kSecond);
  health.broke(where, 3 * kSecond);
  health.works(where);
  EXPECT_EQ(health.dial_ns(where), 0u);
  health.broke(where, 10 * kSecond);
  EXPECT_EQ(health.dial_ns(where), 11 * kSecond);
}

constexpr uint64_t kHalfMinute = 30 * kSecond;

TEST(PathHealth, WhatHasRestedOutIsForgottenWhenAnotherBreaks) {
  PathHealth health;
  const Endpoint rested = endpoint("10.0.0.1", 7);
  const Endpoint later = endpoint("10.0.0.1", 8);
  health.broke(rested, 0);
  health.broke(later, 1);
  const uint64_t over_ns = health.dial_ns(rested);
  health.broke(endpoint("10.0.0.2", 7), over_ns + kHalfMinute - 1);
  EXPECT_EQ(health.dial_ns(rested), over_ns);
  health.broke(endpoint("10.0.0.3", 7), over_ns + kHalfMinute);
  EXPECT_EQ(health.dial_ns(rested), 0u);
  EXPECT_EQ(health.dial_ns(later), over_ns + 1) << "it has a nanosecond left";
}

TEST(PathHealth, BreakingOnKeepsItsOwnName) {
  PathHealth health;
  const Endpoint where = endpoint("10.0.0.1", 7);
  health.broke(where, 0);
  const uint64_t now = health.dial_ns(where) + kHalfMinute;
  health.broke(where, now);
  EXPECT_EQ(health.dial_ns(where), now + 2 * kSecond);
}

// A client may offer the node addresses without end, to be dialled.
TEST(PathHealth, AddressesWithoutEndTakeNoMemoryWithoutEnd) {
  PathHealth health;
  const Endpoint honest = endpoint("10.0.0.1", 7);
  health.broke(honest, 0);
  const uint64_t now = health.dial_ns(honest);
  health.broke(honest, now);  // left alone for longer than those that follow
  for (size_t i = 0; i < PathHealth::kMost; ++i) {
    health.broke(endpoint("10.6.6.6", static_cast<uint16_t>(i)), now + i);
  }
  EXPECT_EQ(health.dial_ns(endpoint("10.6.6.6", 0)), 0u) << "it made room for the last";
  EXPECT_NE(health.dial_ns(endpoint("10.6.6.6", 1)), 0u);
  EXPECT_NE(health.dial_ns(endpoint("10.6.6.6", PathHealth::kMost - 1)), 0u);
  EXPECT_EQ(health.dial_ns(honest), now + 2 * kSecond);
}

}  // namespace
}  // namespace farpage::verbs
