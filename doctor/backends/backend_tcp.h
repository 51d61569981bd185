#pragma once

#include "doctor/backends/backend_finding.h"
#include "doctor/finding/backend_check.h"
#include "doctor/host/privileges.h"

namespace farpage::doctor {

extern const BackendCheck kTcpCheck;

// errno of sending a byte over the loopback interface; 0: it came.
struct TcpFacts {
  int ipv4_error = 0;
  int ipv6_error = 0;
};

TcpFacts read_tcp();

// Of a backend whose clients are reckoned as those of tcp.
DescriptorsOfClient descriptors_over_tcp(size_t rdma_devices);

Finding check_tcp(const TcpFacts& facts, const Wanted& wanted, const Privileges& privileges);

}  // namespace farpage::doctor
