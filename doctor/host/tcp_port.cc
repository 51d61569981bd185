#include "doctor/host/tcp_port.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

#include "net/listening_socket.h"

namespace farpage::doctor {
namespace {

constexpr uint16_t kPortsTried = 100;

std::string listen_command(const Wanted& wanted, const std::string& host, uint16_t port) {
  return fmt::format("{} --listen {}", wanted.node_command,
                     shell_word(format_address({"", host, port})));
}

}  // namespace

TcpPortFacts read_tcp_port(const Address& address, const HostFiles& files) {
  TcpPortFacts facts;
  facts.unprivileged_start = files.number("/proc/sys/net/ipv4/ip_unprivileged_port_start")
                                 .value_or(facts.unprivileged_start);
  const auto endpoints = resolve_to_listen(address);
  if (!endpoints) {
    facts.resolve_error = endpoints.error().message;
    return facts;
  }
  const BoundSocket bound = bind_first(*endpoints);
  facts.resolved = bound.endpoint.host();
  facts.bind_error = bound.error;
  if (facts.bind_error != EADDRINUSE) return facts;
  for (uint16_t step = 1; step <= kPortsTried && address.port <= UINT16_MAX - step; ++step) {
    const auto port = static_cast<uint16_t>(address.port + step);
    const auto next = resolve_to_listen({"", facts.resolved, port});
    if (!next || !bind_first(*next).fd.valid()) continue;
    facts.free_port = port;
    break;
  }
  return facts;
}

Finding check_tcp_port(const TcpPortFacts& facts, const Wanted& wanted,
                       const Privileges& privileges) {
  const Address& address = *wanted.listen;
  const std::string name = format_address(address);
  const bool is_ipv6 = facts.resolved.find(':') != std::string::npos;
  Finding finding = {"listen", "tcp port", Level::kProblem};
  if (!facts.resolve_error.empty()) {
    finding.text = fmt::format("{}: {}", name, facts.resolve_error);
    finding.command = listen_command(wanted, "0.0.0.0", address.port);
  } else if (facts.bind_error == EADDRNOTAVAIL) {
    finding.text =
        fmt::format("{} is {}, which is not an address of this host", name, facts.resolved);
    finding.command = listen_command(wanted, is_ipv6 ? "::" : "0.0.0.0", address.port);
  } else if (facts.bind_error == EADDRINUSE) {
    finding.text = fmt::format("{} is in use", name);
    finding.command = facts.free_port != 0
                          ? listen_command(wanted, address.host, facts.free_port)
                          : privileges.as_root(fmt::format("ss -ltnp sport = :{}", address.port));
  } else if (facts.bind_error == EACCES) {
    finding.text = fmt::format("{} is a privileged port: those below {} are for root alone", name,
                               facts.unprivileged_start);
    finding.command =
        privileges.set_sysctl("net.ipv4.ip_unprivileged_port_start", std::to_string(address.port));
  } else if (facts.bind_error != 0) {
    finding.text = fmt::format("{} cannot be bound: {}", name, std::strerror(facts.bind_error));
    finding.command = listen_command(wanted, "127.0.0.1", address.port);
  } else if (address.port != 0 && address.port < facts.unprivileged_start) {
    finding.level = Level::kNote;
    finding.text = fmt::format("{} is free, but privileged: only a node of root may take it", name);
    finding.command = listen_command(
        wanted, address.host, static_cast<uint16_t>(address.port + facts.unprivileged_start));
  } else {
    finding.level = Level::kOk;
    finding.text = fmt::format("{} ({}) is free", name, facts.resolved);
  }
  return finding;
}

}  // namespace farpage::doctor
