#pragma once

#include <string>
#include <vector>

#include "doctor/backends/backend_finding.h"
#include "doctor/finding/backend_check.h"
#include "doctor/host/host_files.h"
#include "doctor/host/privileges.h"

namespace farpage::doctor {

extern const BackendCheck kVerbsCheck;

struct RdmaPort {
  std::string device;      // "mlx5_0"
  std::string number;      // "1"
  std::string state;       // "ACTIVE"
  std::string interface;   // of an Ethernet port; empty: InfiniBand
  std::string address;     // of an Ethernet port: its first IP address in the GID table (RoCE v2)
  uint64_t gid_index = 0;  // of that
  std::vector<std::string> addresses;  // all of them
  uint64_t mtu = 0;                    // of the interface; 0: not known

  std::string name() const { return device + "/" + number; }
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

// How many paths a node here has: one for each that `wanted` names, or for each device.
size_t rdma_paths(const VerbsFacts& facts, const Wanted& wanted);
// Those of so many devices that a node uses. Of none it is one, as there may be one tomorrow.
uint64_t used_devices(size_t devices);

Finding check_verbs(const VerbsFacts& facts, const Wanted& wanted, const Privileges& privileges);

}  // namespace farpage::doctor
