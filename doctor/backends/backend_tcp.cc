#include "doctor/backends/backend_tcp.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "base/unique_fd.h"

namespace farpage::doctor {
namespace {

constexpr int kPatienceMs = 1'000;
// Its control connection, one for its staging, and one for the reads of each of two lanes.
constexpr uint64_t kDescriptorsOfTcpClient = 4;

bool wait_readable(const UniqueFd& socket) {
  pollfd readable = {socket.get(), POLLIN, 0};
  if (::poll(&readable, 1, kPatienceMs) == 1) return true;
  errno = ETIMEDOUT;
  return false;
}

bool send_one_byte(sockaddr* address, socklen_t bytes) {
  const int family = address->sa_family;
  const UniqueFd server(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!server.valid() || ::bind(server.get(), address, bytes) != 0 ||
      ::listen(server.get(), 1) != 0 || ::getsockname(server.get(), address, &bytes) != 0) {
    return false;
  }
  // Without waiting: what drops packets to loopback drops them in silence.
  const UniqueFd client(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!client.valid()) return false;
  if (::connect(client.get(), address, bytes) != 0 && errno != EINPROGRESS) return false;
  if (!wait_readable(server)) return false;
  const UniqueFd accepted(::accept4(server.get(), nullptr, nullptr, SOCK_CLOEXEC));
  char byte = 1;
  if (!accepted.valid() || ::send(accepted.get(), &byte, 1, MSG_NOSIGNAL) != 1) return false;
  return wait_readable(client) && ::recv(client.get(), &byte, 1, 0) == 1;
}

HostSide look(const TcpFacts& facts, const Privileges& privileges) {
  const bool has_ipv6 = facts.ipv6_error == 0;
  if (facts.ipv4_error == 0) {
    return {Level::kOk,
            fmt::format(
                "a byte went over loopback, {}",
                has_ipv6 ? std::string("by IPv4 and by IPv6")
                         : fmt::format("by IPv4 (by IPv6: {})", std::strerror(facts.ipv6_error))),
            ""};
  }
  const std::string why =
      fmt::format("no byte goes over loopback by IPv4 ({})", std::strerror(facts.ipv4_error));
  switch (facts.ipv4_error) {
    case EMFILE:
      return {Level::kProblem, why, "ulimit -n 1024"};
    case ETIMEDOUT:
    case ECONNREFUSED:
      return {Level::kProblem, why + ": a firewall drops it",
              privileges.as_root("iptables -I INPUT -i lo -j ACCEPT")};
    default:
      return {Level::kProblem, why, privileges.as_root("ip link set lo up")};
  }
}

}  // namespace

TcpFacts read_tcp() {
  TcpFacts facts;
  sockaddr_in ipv4 = {};
  ipv4.sin_family = AF_INET;
  ipv4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (!send_one_byte(reinterpret_cast<sockaddr*>(&ipv4), sizeof ipv4)) facts.ipv4_error = errno;
  sockaddr_in6 ipv6 = {};
  ipv6.sin6_family = AF_INET6;
  ipv6.sin6_addr = in6addr_loopback;
  if (!send_one_byte(reinterpret_cast<sockaddr*>(&ipv6), sizeof ipv6)) facts.ipv6_error = errno;
  return facts;
}

DescriptorsOfClient descriptors_over_tcp(size_t) {
  return {kDescriptorsOfTcpClient, "tcp"};
}

Finding check_tcp(const TcpFacts& facts, const Wanted& wanted, const Privileges& privileges) {
  return backend_finding(kTcpCheck, look(facts, privileges), wanted);
}

const BackendCheck kTcpCheck = {
    .name = "tcp",
    .runs_anywhere = true,
    .minds_tcp_settings = true,
    .descriptors_of_client = descriptors_over_tcp,
    .examine =
        [](const Wanted& wanted, const HostFiles&, const Privileges& privileges) {
          return check_tcp(read_tcp(), wanted, privileges);
        },
};

}  // namespace farpage::doctor
