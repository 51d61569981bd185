#include "net/address/address.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>

namespace farpage {
namespace {

TEST(Address, EveryKindIsTaken) {
  struct Case {
    const char* text;
    const char* path;
    const char* host;
    uint16_t port;
  };
  const Case cases[] = {
      {"/run/farpage/node.sock", "/run/farpage/node.sock", "", 0},
      {"node.sock", "node.sock", "", 0},
      {"./a:b", "./a:b", "", 0},
      {"a:b", "a:b", "", 0},
      {"a:7b", "a:7b", "", 0},
      {"a:", "a:", "", 0},
      {"./127.0.0.1:7010", "./127.0.0.1:7010", "", 0},
      {"/run/node:7010", "/run/node:7010", "", 0},
      {"tcp:/odd", "tcp:/odd", "", 0},  // a folder's name may end in a colon
      {"tcp://node7:7010", "", "node7", 7010},
      {"tcp://node7.example.com:1", "", "node7.example.com", 1},
      {"tcp://10.0.0.7:65535", "", "10.0.0.7", 65535},
      {"tcp://127.0.0.1:0", "", "127.0.0.1", 0},
      {"tcp://[::1]:7010", "", "::1", 7010},
      {"tcp://[fe80::1%eth0]:7010", "", "fe80::1%eth0", 7010},
      {"tcp://[::]:00080", "", "::", 80},
  };
  for (const Case& good : cases) {
    const auto address = parse_address(good.text);
    ASSERT_TRUE(address.has_value()) << good.text << ": " << address.error().message;
    EXPECT_EQ(address->path, good.path);
    EXPECT_EQ(address->host, good.host);
    EXPECT_EQ(address->port, good.port);
    EXPECT_EQ(address->is_tcp(), std::string(good.path).empty());
    const auto again = parse_address(format_address(*address));
    ASSERT_TRUE(again.has_value()) << format_address(*address);
    EXPECT_EQ(again->host, address->host);
    EXPECT_EQ(again->port, address->port);
    EXPECT_EQ(again->path, address->path);
  }
}

TEST(Address, WhatIsNoneIsRefusedWithAReason) {
  struct Case {
    const char* text;
    const char* reason;
  };
  const Case cases[] = {
      {"", "empty"},
      {"http://host:80", "scheme"},
      {"udp://host:80", "scheme"},
      {"TCP://host:80", "scheme"},
      {"tcp://", "no port"},
      {"tcp://host", "no port"},
      {"tcp://[::1]", "no port"},
      {"tcp://:7010", "no host"},
      {"tcp://[]:7010", "no host"},
      {"tcp://::1:7010", "brackets"},
      {"tcp://[::1:7010", "brackets"},
      {"tcp://::1]:7010", "brackets"},
      {"tcp://a]b:7010", "brackets"},
      {"tcp://host:", "not a number"},
      {"tcp://host:65536", "not a number"},
      {"tcp://host:-1", "not a number"},
      {"tcp://host:+1", "not a number"},
      {"tcp://host: 1", "not a number"},
      {"tcp://host:1x", "not a number"},
      {"tcp://host:0x10", "not a number"},
      {"tcp://host:7010/", "not a number"},
      {"tcp://ho st:7010", "not a name"},
      {"tcp://host/path:7010", "not a name"},
      {"tcp://user@host:7010", "not a name"},
  };
  for (const Case& bad : cases) {
    const auto address = parse_address(bad.text);
    ASSERT_FALSE(address.has_value()) << bad.text;
    EXPECT_EQ(address.error().code, Code::kInvalid);
    EXPECT_NE(address.error().message.find(bad.reason), std::string::npos)
        << bad.text << ": " << address.error().message;
    EXPECT_NE(address.error().message.find("tcp://HOST:PORT"), std::string::npos);
  }
}

TEST(Address, HostAndPortWithoutTheSchemeAreToldFromASocket) {
  for (const std::string text : {"127.0.0.1:7010", "node7:7010", "[::1]:7010", ":7010", "a:0"}) {
    const auto address = parse_address(text);
    ASSERT_FALSE(address.has_value()) << text;
    EXPECT_EQ(address.error().code, Code::kInvalid);
    EXPECT_NE(address.error().message.find("did you mean tcp://" + text + "?"), std::string::npos)
        << address.error().message;
    EXPECT_TRUE(parse_address("./" + text).has_value());
  }
}

// A zero byte would end the name early for the resolver.
TEST(Address, HostWithAZeroByteIsRefused) {
  EXPECT_FALSE(parse_address(std::string("tcp://good\0bad:1", 16)).has_value());
  EXPECT_FALSE(parse_address(std::string("/run/\0node", 10)).has_value());
}

RC_GTEST_PROP(AddressProperty, WhatIsTakenReadsTheSameAgain, ()) {
  const auto text =
      *rc::gen::container<std::string>(rc::gen::elementOf(std::string("tcp:/[]1a%.")));
  for (const std::string& each : {text, "tcp://" + text, "tcp://" + text + ":1"}) {
    const auto address = parse_address(each);
    if (!address) continue;
    const auto again = parse_address(format_address(*address));
    RC_ASSERT(again.has_value());
    RC_ASSERT(again->host == address->host && again->port == address->port &&
              again->path == address->path);
  }
}

}  // namespace
}  // namespace farpage
