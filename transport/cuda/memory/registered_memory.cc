#include "transport/cuda/memory/registered_memory.h"

#include <string>
#include <utility>

#include "base/units.h"

namespace farpage::cuda {

Result<RegisteredMemory> RegisteredMemory::make(std::shared_ptr<const GpuContext> context,
                                                std::shared_ptr<const Mapping> memory) {
  const Driver& driver = context->driver();
  const CurrentContext current(*context);
  int result = current.result();
  int is_able = 0;
  if (result == kSuccess) {
    result = driver.device_attribute(&is_able, kReadOnlyRegistration, context->device());
  }
  const std::string device = "cuda:" + std::to_string(context->device());
  if (result == kSuccess && is_able == 0) {
    return fail(Code::kUnavailable, device + " reads no memory that is mapped for reading alone");
  }
  if (result == kSuccess) {
    result = driver.register_host(memory->data(), memory->bytes(),
                                  kRegisterPortable | kRegisterReadOnly);
  }
  if (result == kSuccess) return RegisteredMemory(std::move(context), std::move(memory));
  return fail(
      Code::kUnavailable,
      driver_error(driver, result,
                   device + " takes no " + format_bytes(memory->bytes()) + " of a node's memory"));
}

RegisteredMemory::~RegisteredMemory() {
  if (context_ == nullptr) return;
  const CurrentContext current(*context_);
  context_->driver().unregister_host(memory_->data());
}

}  // namespace farpage::cuda
