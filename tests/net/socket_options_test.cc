#include "net/socket_options.h"

#include <netinet/in.h>
#include <netinet/tcp.h>

#include <fstream>

#include "tests/net/open_port.h"

namespace farpage {
namespace {

std::string congestion_control(int fd) {
  std::array<char, 16> name = {};  // TCP_CA_NAME_MAX
  socklen_t bytes = name.size();
  EXPECT_EQ(::getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(), &bytes), 0);
  return name.data();
}

std::string congestion_control_of_the_system() {
  std::string name;
  std::ifstream("/proc/sys/net/ipv4/tcp_congestion_control") >> name;
  return name;
}

// A socket that is connected to `host`'s, from 127.0.0.1.
UniqueFd connected_to(in_addr_t host) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(host);
  socklen_t bytes = sizeof address;
  auto* where = reinterpret_cast<sockaddr*>(&address);
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM, 0));
  EXPECT_EQ(::bind(listener.get(), where, bytes), 0);
  EXPECT_EQ(::listen(listener.get(), 1), 0);
  EXPECT_EQ(::getsockname(listener.get(), where, &bytes), 0);
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM, 0));
  EXPECT_EQ(::connect(fd.get(), where, bytes), 0);
  return fd;
}

TEST(SocketOptions, AConnectionWithinAHostHasRenoAtBothEnds) {
  OpenPort port;
  const auto client = port.dial();
  ASSERT_TRUE(client.has_value()) << client.error().message;
  const auto [node, who] = port.guest();
  ASSERT_NE(node, nullptr);
  EXPECT_EQ(congestion_control((*client)->fd()), "reno");
  EXPECT_EQ(congestion_control(node->fd()), "reno");
}

TEST(SocketOptions, AConnectionToAnotherAddressHasWhatTheSystemGives) {
  const UniqueFd fd = connected_to(INADDR_LOOPBACK + 1);
  set_connection_options(fd.get());
  EXPECT_EQ(congestion_control(fd.get()), congestion_control_of_the_system());
}

}  // namespace
}  // namespace farpage
