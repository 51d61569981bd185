#pragma once

#include <cstdint>
#include <memory>

#include "base/memory/mapping.h"
#include "base/status.h"
#include "transport/cuda/gpu_context.h"

namespace farpage::cuda {

// Host memory of somebody else's that a device's copy engine reads, and nothing of this process
// writes. It stays mapped as long as this lives, which ends once no copy reads it; after an error
// that has ended the context, the driver keeps its pages pinned until the process ends. Any thread;
// making and ending it lasts: 39 ms for 512 MiB on an H100.
class RegisteredMemory {
 public:
  // For reading alone: kUnavailable, with a sentence, where the device cannot, as a driver refuses
  // memory that is mapped read-only otherwise.
  static Result<RegisteredMemory> make(std::shared_ptr<const GpuContext> context,
                                       std::shared_ptr<const Mapping> memory);
  RegisteredMemory(RegisteredMemory&&) noexcept = default;
  RegisteredMemory& operator=(RegisteredMemory&&) = delete;
  ~RegisteredMemory();

 private:
  RegisteredMemory(std::shared_ptr<const GpuContext> context, std::shared_ptr<const Mapping> memory)
      : context_(std::move(context)), memory_(std::move(memory)) {}

  std::shared_ptr<const GpuContext> context_;  // null: moved from
  std::shared_ptr<const Mapping> memory_;
};

}  // namespace farpage::cuda
