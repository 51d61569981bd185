#include "net/address/resolve.h"

#include <netinet/in.h>

#include "tests/net/pair.h"

namespace farpage {
namespace {

Address address(const std::string& host, uint16_t port = 7) {
  Address made;
  made.host = host;
  made.port = port;
  return made;
}

TEST(Resolve, NumbersNeedNoResolverAndNoTime) {
  const auto ipv4 = resolve(address("127.0.0.1", 7010), ResolveFor::kConnect, 0);
  ASSERT_TRUE(ipv4.has_value()) << ipv4.error().message;
  ASSERT_EQ(ipv4->size(), 1u);
  const auto& four = *reinterpret_cast<const sockaddr_in*>(ipv4->front().address());
  EXPECT_EQ(four.sin_family, AF_INET);
  EXPECT_EQ(four.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
  EXPECT_EQ(four.sin_port, htons(7010));

  const auto ipv6 = resolve(address("::1", 7010), ResolveFor::kConnect, 0);
  ASSERT_TRUE(ipv6.has_value()) << ipv6.error().message;
  const auto& six = *reinterpret_cast<const sockaddr_in6*>(ipv6->front().address());
  EXPECT_EQ(six.sin6_family, AF_INET6);
  EXPECT_TRUE(IN6_IS_ADDR_LOOPBACK(&six.sin6_addr));
  EXPECT_EQ(six.sin6_port, htons(7010));
}

TEST(Resolve, LocalhostIsTheLoopback) {
  const auto found = resolve(address("localhost"), ResolveFor::kConnect, soon());
  ASSERT_TRUE(found.has_value()) << found.error().message;
  EXPECT_FALSE(found->empty());
}

// RFC 6761: a name under .invalid never resolves.
TEST(Resolve, NameThatDoesNotResolveIsNamed) {
  const auto none = resolve(address("no-node.invalid"), ResolveFor::kConnect, soon(60 * kSecond));
  ASSERT_FALSE(none.has_value());
  EXPECT_TRUE(none.error().code == Code::kUnavailable || none.error().code == Code::kTimeout);
  expect_says(none.error(), "'no-node.invalid'");
  expect_says(none.error(), "give the address in numbers");
}

TEST(Resolve, DeadlineThatHasPassedIsKept) {
  const auto late = resolve(address("no-node.invalid"), ResolveFor::kConnect, 0);
  ASSERT_FALSE(late.has_value());
  EXPECT_EQ(late.error().code, Code::kTimeout);
}

}  // namespace
}  // namespace farpage
