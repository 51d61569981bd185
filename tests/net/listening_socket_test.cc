#include "net/listening_socket.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

namespace farpage {
namespace {

constexpr const char* kNobodysAddress = "192.0.2.1";  // RFC 5737: for documents alone

Address at(const std::string& host, uint16_t port = 0) {
  return {"", host, port};
}

Endpoint endpoint(const char* host, uint16_t port = 0) {
  Endpoint made;
  auto* ipv4 = reinterpret_cast<sockaddr_in*>(&made.storage);
  ipv4->sin_family = AF_INET;
  ipv4->sin_port = htons(port);
  ::inet_pton(AF_INET, host, &ipv4->sin_addr);
  made.bytes = sizeof *ipv4;
  return made;
}

void expect_refused(const Address& address, Code code, const std::string& advice) {
  const auto refused = listen_on(address);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, code) << refused.error().message;
  for (const std::string& part : {address.host, advice}) {
    EXPECT_NE(refused.error().message.find(part), std::string::npos) << refused.error().message;
  }
}

TEST(ListeningSocket, FreePortIsTold) {
  const auto first = listen_on(at("127.0.0.1"));
  ASSERT_TRUE(first.has_value()) << first.error().message;
  EXPECT_NE(first->address.port, 0);
  const auto second = listen_on(at("localhost"));
  ASSERT_TRUE(second.has_value()) << second.error().message;
  EXPECT_EQ(second->address.host, "localhost");
  EXPECT_NE(second->address.port, 0);
}

TEST(ListeningSocket, TakesConnections) {
  const auto server = listen_on(at("127.0.0.1"));
  ASSERT_TRUE(server.has_value()) << server.error().message;
  const UniqueFd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const Endpoint to = endpoint("127.0.0.1", server->address.port);
  EXPECT_EQ(::connect(client.get(), to.address(), to.bytes), 0);
}

TEST(ListeningSocket, PortInUseIsNamed) {
  const auto first = listen_on(at("127.0.0.1"));
  ASSERT_TRUE(first.has_value()) << first.error().message;
  expect_refused(first->address, Code::kExists, "choose another port");
  expect_refused(first->address, Code::kExists, std::to_string(first->address.port));
}

TEST(ListeningSocket, AllAddressesMeanIpv4Too) {
  const auto ipv4 = listen_on(at("127.0.0.1"));
  ASSERT_TRUE(ipv4.has_value()) << ipv4.error().message;
  if (!listen_on(at("::"))) GTEST_SKIP() << "hardware: no IPv6 here";
  expect_refused(at("::", ipv4->address.port), Code::kExists, "in use");
}

TEST(ListeningSocket, WhatCannotBeHadIsRefusedWithAdvice) {
  expect_refused(at(kNobodysAddress), Code::kInvalid, "choose an address of this machine");
  expect_refused(at("no-such-host.invalid"), Code::kUnavailable, "give the address in numbers");
}

TEST(ListeningSocket, FirstAddressThatIsThereIsBound) {
  const BoundSocket bound =
      bind_first({endpoint(kNobodysAddress), endpoint("127.0.0.1"), endpoint(kNobodysAddress)});
  EXPECT_TRUE(bound.fd.valid());
  EXPECT_EQ(bound.error, 0);
  EXPECT_EQ(bound.endpoint.host(), "127.0.0.1");
  const BoundSocket none = bind_first({endpoint(kNobodysAddress, 7)});
  EXPECT_FALSE(none.fd.valid());
  EXPECT_EQ(none.error, EADDRNOTAVAIL);
  EXPECT_EQ(none.endpoint.host(), kNobodysAddress);
  EXPECT_EQ(none.endpoint.port(), 7);
}

}  // namespace
}  // namespace farpage
