#include "lab/live/link_text.h"

#include <gtest/gtest.h>

namespace farpage::live {
namespace {

TEST(Link, IsReadAsItIsWritten) {
  const auto link = parse_link("25us,10GB/s");
  ASSERT_TRUE(link.has_value());
  EXPECT_EQ(link->latency_ns, 25'000u);
  EXPECT_EQ(link->bytes_per_s, 10'000'000'000u);
  EXPECT_EQ(link->capacity_pages, 0u);
  EXPECT_EQ(parse_link("1.5ms,800Mb/s")->latency_ns, 1'500'000u);
  EXPECT_EQ(parse_link("1.5ms,800Mb/s")->bytes_per_s, 100'000'000u);
  EXPECT_EQ(parse_link("0ns,2500B/s")->bytes_per_s, 2'500u);
}

TEST(Link, WhatIsNoneIsRefused) {
  for (const char* text : {"", ",", "25us", "25us,", ",1GB/s", "25,1GB/s", "25us,10", "-1us,1GB/s",
                           "25us,0GB/s", "25us,1GB/s,", "nanus,1GB/s", "25us,infGB/s", "61s,1GB/s",
                           "25 us,1GB/s", "25us, 1GB/s", "1e99s,1GB/s"}) {
    const auto link = parse_link(text);
    ASSERT_FALSE(link.has_value()) << text;
    EXPECT_NE(link.error().message.find("25us,10GB/s"), std::string::npos);
  }
}

}  // namespace
}  // namespace farpage::live
