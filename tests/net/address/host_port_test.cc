#include <gtest/gtest.h>

#include "net/address/address.h"

namespace farpage {
namespace {

TEST(HostPort, WhatIsNoneIsRefusedWithWhatToWrite) {
  for (const char* text : {"", "9464", ":9464", "localhost", "::1:9464", "127.0.0.1:", "1.2.3.4:x",
                           "1.2.3.4:65536", "[::1]", "[::1:9464", "a:-1", "127.0.0.1:999999",
                           "[]:1", "127.0.0.1:+80", "127.0.0.1: 8", "tcp://127.0.0.1:80"}) {
    const auto parsed = parse_host_port(text);
    ASSERT_FALSE(parsed.has_value()) << text;
    EXPECT_EQ(parsed.error().code, Code::kInvalid);
    EXPECT_TRUE(
        parsed.error().message.starts_with("'" + std::string(text) + "' is not an address"));
    EXPECT_NE(parsed.error().message.find("write HOST:PORT"), std::string::npos);
  }
}

TEST(HostPort, ComesBackAsItWasWritten) {
  for (const char* text :
       {"127.0.0.1:9464", "[::1]:9464", "localhost:0", "node-7.example:65535", "0.0.0.0:1"}) {
    const auto parsed = parse_host_port(text);
    ASSERT_TRUE(parsed.has_value()) << text;
    EXPECT_TRUE(parsed->is_tcp());
    EXPECT_EQ(format_host_port(*parsed), text);
    EXPECT_EQ(format_address(*parsed), "tcp://" + std::string(text));
  }
}

}  // namespace
}  // namespace farpage
