#pragma once

#include <string>
#include <vector>

#include "doctor/backend_finding.h"
#include "doctor/host_files.h"
#include "doctor/privileges.h"

namespace farpage::doctor {

struct RdmaPort {
  std::string name;        // "mlx5_0/1"
  std::string state;       // "ACTIVE"
  std::string interface;   // of an Ethernet port; empty: InfiniBand
  std::string address;     // of an Ethernet port: its first IP address in the GID table (RoCE v2)
  uint64_t gid_index = 0;  // of that
  uint64_t mtu = 0;        // of the interface; 0: not known
};

struct VerbsFacts {
  std::vector<std::string> devices;
  std::vector<RdmaPort> ports;
  uint64_t user_devices = 0;   // /dev/infiniband/uverbs*
  bool has_providers = false;  // of libibverbs: the part that knows the devices
  bool has_soft_rdma = false;  // rdma_rxe is loaded, or can be
  std::string interface;       // that is up and not loopback, for rdma_rxe
};

VerbsFacts read_verbs(const HostFiles& files);

Finding check_verbs(const VerbsFacts& facts, const Wanted& wanted, const Privileges& privileges);

}  // namespace farpage::doctor
