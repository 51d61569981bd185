#pragma once

#include <cstdint>
#include <string>

#include "tests/transport/cuda/fake/device/device_access.h"
#include "transport/cuda/kernels/page_batch.h"

namespace farpage::cuda {

// One launch, as it was when the call was made.
struct Launch {
  std::string kernel;
  uint32_t blocks = 0;
  uint32_t shared_bytes = 0;
  uint64_t seed = 0;   // of the order of the blocks
  uint64_t items = 0;  // or a fence
  uint32_t count = 0;
  PagedLayout layout;
  PageFindings out;
  // It reads the item of each page wrongly whose number, from `pages_before` on, this divides; 0:
  // of none.
  uint64_t spoil_every = 0;
  uint64_t pages_before = 0;
};

// Takes a launch's parameters for the kernel of that name; false: there is none.
bool take_parameters(Launch& launch, void** parameters);
// Does on the CPU what the kernel does, block by block.
void run_kernel(const Launch& launch, DeviceAccess& device);

}  // namespace farpage::cuda
