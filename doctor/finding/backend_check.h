#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace farpage::doctor {

class HostFiles;
struct Finding;
struct Privileges;
struct Wanted;

// Descriptors of the node that each client takes that puts and has two lanes.
struct DescriptorsOfClient {
  uint64_t count = 1;
  std::string over = {};  // what they are reckoned for: "tcp", "verbs with 2 devices"
};

// The doctor's check of one backend, in the file backend_NAME.cc.
struct BackendCheck {
  std::string_view name;
  bool runs_anywhere = false;       // needs neither a device nor a library
  bool locks_memory = false;        // RLIMIT_MEMLOCK counts what peers read and write
  bool minds_tcp_settings = false;  // pages travel over the kernel's TCP
  uint64_t mappings_of_client = 0;  // that each client costs the node
  // With so many RDMA devices.
  DescriptorsOfClient (*descriptors_of_client)(size_t rdma_devices) = nullptr;
  // Says whether this host can run it, and what is missing.
  Finding (*examine)(const Wanted& wanted, const HostFiles& files,
                     const Privileges& privileges) = nullptr;
};

}  // namespace farpage::doctor
