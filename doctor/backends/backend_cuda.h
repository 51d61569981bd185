#pragma once

#include <optional>
#include <string>

#include "doctor/backends/backend_finding.h"
#include "doctor/finding/backend_check.h"
#include "doctor/host/host_files.h"
#include "doctor/host/privileges.h"

namespace farpage::doctor {

extern const BackendCheck kCudaCheck;

struct CudaFacts {
  uint64_t gpus = 0;                // /proc/driver/nvidia/gpus
  uint64_t device_files = 0;        // /dev/nvidia0, /dev/nvidia1, …
  std::string driver;               // its version; empty: it is not loaded
  bool has_peer_memory = false;     // nvidia_peermem is loaded
  std::optional<bool> has_dma_buf;  // in the kernel's configuration
};

CudaFacts read_cuda(const HostFiles& files);

Finding check_cuda(const CudaFacts& facts, const Wanted& wanted, const Privileges& privileges);

}  // namespace farpage::doctor
