#pragma once

#include <cstdint>
#include <memory>

#include "base/status.h"
#include "transport/cuda/gpu_context.h"

namespace farpage::cuda {

// The context of the one device that all of these bytes are memory of, allocated at once or mapped
// piece by piece (cuMemMap). No thread's current context changes. kInvalid, with a sentence: host
// memory, memory that CUDA does not know, a range that is not mapped whole or that two devices
// have, memory of a context that is not its device's primary one.
Result<std::shared_ptr<const GpuContext>> context_of_memory(const Driver& driver, uint64_t address,
                                                            uint64_t bytes);

}  // namespace farpage::cuda
