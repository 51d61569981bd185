#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "doctor/finding/finding.h"
#include "doctor/host/host_files.h"
#include "doctor/host/privileges.h"

namespace farpage::doctor {

struct GpuFacts {
  size_t cards = 0;           // of NVIDIA's, on the PCI bus
  std::string kernel_driver;  // its version; "": it is not loaded
  size_t gpus = 0;            // that it has
  size_t device_files = 0;    // /dev/nvidia0, …

  std::string library_error;         // why this process cannot use CUDA's driver; "": it can
  std::vector<std::string> devices;  // that it gives this process, by name
  size_t read_nodes = 0;             // devices that can read a node's shared memory
  size_t reached = 0;                // ... whose memory network cards can write, and it sees it
  size_t with_dma_bufs = 0;          // ... of those, that tell the cards where it lies
  bool has_kernels = false;          // this build, to check pages in a GPU's memory

  size_t rdma_devices = 0;
  bool has_peer_memory = false;  // nvidia-peermem is loaded
};

// Makes no context on a GPU. `library`: CUDA's driver, as clients load it.
GpuFacts read_gpus(const HostFiles& files, const char* library = "libcuda.so.1");

// None of these keeps a host from fetching into its own memory.
Finding check_gpu_driver(const GpuFacts& facts, const Privileges& privileges);
// The way of pages into a GPU's memory, and why it is that one.
Finding check_gpu_path(const GpuFacts& facts, const Privileges& privileges);

}  // namespace farpage::doctor
