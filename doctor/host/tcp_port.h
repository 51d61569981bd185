#pragma once

#include <string>
#include <vector>

#include "doctor/finding/finding.h"
#include "doctor/finding/wanted.h"
#include "doctor/host/host_files.h"
#include "doctor/host/privileges.h"

namespace farpage::doctor {

// The result of an attempt to bind the address that a node would listen on.
struct TcpPortFacts {
  std::string resolve_error = {};       // empty: it resolves to
  std::string resolved = {};            // the address that a node would take, in numbers
  int bind_error = 0;                   // errno; 0: it is free
  uint16_t free_port = 0;               // the next one that can be bound; 0: none near
  uint64_t unprivileged_start = 1'024;  // net.ipv4.ip_unprivileged_port_start
};

TcpPortFacts read_tcp_port(const Address& address, const HostFiles& files);

Finding check_tcp_port(const TcpPortFacts& facts, const Wanted& wanted,
                       const Privileges& privileges);

}  // namespace farpage::doctor
