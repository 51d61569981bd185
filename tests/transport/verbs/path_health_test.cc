#include "transport/verbs/path_health.h"

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

}  // namespace
}  // namespace farpage::verbs
