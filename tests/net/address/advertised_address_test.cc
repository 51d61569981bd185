#include "net/address/advertised_address.h"

#include <gtest/gtest.h>

namespace farpage {
namespace {

Address at(const std::string& host) {
  const bool is_ipv6 = host.find(':') != std::string::npos;
  return parse_address("tcp://" + (is_ipv6 ? "[" + host + "]" : host) + ":7010").value();
}

TEST(AdvertisedAddress, OfOneHostIsTaken) {
  for (const char* host :
       {"10.0.0.1", "192.168.1.255", "node7", "node7.example.com", "fd00::1", "2001:db8::1",
        "fe80::1%eth0", "::ffff:10.0.0.1", "127.0.0.1", "::1", "localhost", "169.254.1.1",
        "240.0.0.1", "223.255.255.255", "1.0.0.0", "0x0a000001"}) {
    EXPECT_TRUE(check_advertised(at(host), "key").has_value()) << host;
  }
  EXPECT_TRUE(check_advertised(parse_address("/run/n.sock").value(), "key").has_value());
}

TEST(AdvertisedAddress, ThatMeansAnotherHostElsewhereIsRefused) {
  for (const char* host : {"0.0.0.0", "0", "0.0", "0x0", "0.1.2.3", "::", "0:0:0:0:0:0:0:0", "::0",
                           "::ffff:0.0.0.0", "::ffff:0:0", "fe80::1", "febf::1", "::ffff:224.0.0.1",
                           "224.0.0.1", "255.255.255.255", "ff02::1"}) {
    const auto refused = check_advertised(at(host), "the key");
    ASSERT_FALSE(refused.has_value()) << host;
    EXPECT_EQ(refused.error().code, Code::kInvalid);
    EXPECT_EQ(refused.error().message.find("the key: tcp://"), 0u) << refused.error().message;
  }
  Address any_port = at("10.0.0.1");
  any_port.port = 0;
  EXPECT_FALSE(check_advertised(any_port, "key").has_value());
}

TEST(AdvertisedAddress, OfOneMachineIsTheLoopbackByWhateverName) {
  for (const char* host : {"127.0.0.1", "127.9.8.7", "127.1", "2130706433", "::1",
                           "0:0:0:0:0:0:0:1", "::ffff:127.0.0.1", "localhost", "LocalHost",
                           "localhost.", "localhost.localdomain", "a.localhost", "ip6-localhost"}) {
    EXPECT_TRUE(is_of_one_machine(at(host))) << host;
  }
  EXPECT_TRUE(is_of_one_machine(parse_address("/run/n.sock").value()));
  for (const char* host : {"128.0.0.1", "10.0.0.1", "::2", "notlocalhost", "localhost.example.com",
                           "127.0.0.1.example.com"}) {
    EXPECT_FALSE(is_of_one_machine(at(host))) << host;
  }
}

}  // namespace
}  // namespace farpage
