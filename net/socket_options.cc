#include "net/socket_options.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <string>
#include <string_view>

namespace farpage {
namespace {

// Of one end: ::getsockname or ::getpeername. Empty: none.
std::string host_of(int fd, int (*end)(int, sockaddr*, socklen_t*)) {
  sockaddr_storage address = {};
  socklen_t bytes = sizeof address;
  std::array<char, NI_MAXHOST> host = {};
  auto* where = reinterpret_cast<sockaddr*>(&address);
  if (end(fd, where, &bytes) != 0 ||
      ::getnameinfo(where, bytes, host.data(), host.size(), nullptr, 0, NI_NUMERICHOST) != 0) {
    return {};
  }
  return host.data();
}

}  // namespace

void set_connection_options(int fd) {
  constexpr int kOn = 1;
  constexpr int kIdleSeconds = 15;
  constexpr int kIntervalSeconds = 5;
  constexpr int kProbes = 3;
  constexpr int kUserTimeoutMs = 30'000;
  constexpr std::string_view kUnpaced = "reno";  // the one that every kernel has and permits
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &kOn, sizeof kOn);
  ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &kOn, sizeof kOn);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &kIdleSeconds, sizeof kIdleSeconds);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &kIntervalSeconds, sizeof kIntervalSeconds);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &kProbes, sizeof kProbes);
  ::setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &kUserTimeoutMs, sizeof kUserTimeoutMs);
  if (host_of(fd, ::getsockname) == host_of(fd, ::getpeername)) {
    ::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, kUnpaced.data(), kUnpaced.size());
  }
}

}  // namespace farpage
