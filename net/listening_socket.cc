#include "net/listening_socket.h"

#include <netinet/in.h>

#include <cerrno>
#include <cstring>

#include "base/clock.h"

namespace farpage {
namespace {

constexpr uint64_t kResolveNs = 10 * kSecond;

// On failure none, and the reason in `error`.
UniqueFd bind_to(const Endpoint& endpoint, int& error) {
  constexpr int kOn = 1;
  constexpr int kOff = 0;
  UniqueFd fd(::socket(endpoint.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  error = fd.valid() ? 0 : errno;
  if (error != 0) return fd;
  // Connections that have just ended are not in the way.
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &kOn, sizeof kOn);
  // [::] takes IPv4 as well, whatever the machine's default.
  if (endpoint.family() == AF_INET6) {
    ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &kOff, sizeof kOff);
  }
  if (::bind(fd.get(), endpoint.address(), endpoint.bytes) == 0) return fd;
  error = errno;
  return UniqueFd();
}

tl::unexpected<Error> refuse(const Address& address, int error) {
  const std::string what = "cannot listen on " + format_host_port(address);
  const auto advise = [&](Code code, const char* advice) {
    return fail(code, what + " (" + std::strerror(error) + "): " + advice);
  };
  switch (error) {
    case EADDRINUSE:
      return advise(Code::kExists, "stop what listens there, or choose another port");
    case EADDRNOTAVAIL:
      return advise(Code::kInvalid, "choose an address of this machine, or [::] for all of them");
    case EACCES:
      return advise(Code::kDenied, "choose a port above 1023");
    default:
      return fail_errno(error, what);
  }
}

}  // namespace

Result<std::vector<Endpoint>> resolve_to_listen(const Address& address) {
  return resolve(address, ResolveFor::kListen, boottime_clock().now_ns() + kResolveNs);
}

BoundSocket bind_first(const std::vector<Endpoint>& endpoints) {
  BoundSocket bound;
  for (const Endpoint& endpoint : endpoints) {
    bound.endpoint = endpoint;
    bound.fd = bind_to(endpoint, bound.error);
    if (bound.fd.valid()) break;
  }
  return bound;
}

Result<ListeningSocket> listen_on(const Address& address) {
  const auto endpoints = resolve_to_listen(address);
  if (!endpoints) return tl::unexpected(endpoints.error());
  BoundSocket bound = bind_first(*endpoints);
  if (!bound.fd.valid()) return refuse(address, bound.error);
  if (::listen(bound.fd.get(), SOMAXCONN) != 0) return refuse(address, errno);
  Endpoint& endpoint = bound.endpoint;
  endpoint.bytes = sizeof endpoint.storage;
  ::getsockname(bound.fd.get(), reinterpret_cast<sockaddr*>(&endpoint.storage), &endpoint.bytes);
  ListeningSocket listening = {std::move(bound.fd), address};
  listening.address.port = endpoint.port();
  return listening;
}

}  // namespace farpage
