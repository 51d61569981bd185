#include "transport/cuda/memory/pinned_memory.h"

#include <string>
#include <utility>

#include "base/memory/populate.h"
#include "base/units.h"

namespace farpage::cuda {

Result<PinnedMemory> PinnedMemory::make(std::shared_ptr<const GpuContext> context, uint64_t bytes) {
  auto memory = Mapping::anonymous(bytes);
  if (!memory) return tl::unexpected(memory.error());
  // Before the driver takes it: a limit is an error here, and would be a kill there.
  if (auto taken = populate(*memory, bytes); !taken) return tl::unexpected(taken.error());
  const Driver& driver = context->driver();
  const CurrentContext current(*context);
  int result = current.result();
  if (result == kSuccess) {
    result = driver.register_host(memory->data(), memory->bytes(),
                                  kRegisterPortable | kRegisterDeviceMap);
  }
  if (result != kSuccess) {
    return fail(Code::kExhausted,
                driver_error(driver, result,
                             "cannot pin " + format_bytes(bytes) + " of host memory for a GPU"));
  }
  uint64_t address = 0;
  result = driver.host_address(&address, memory->data(), 0);
  if (result != kSuccess) {
    driver.unregister_host(memory->data());
    return fail(Code::kUnavailable,
                driver_error(driver, result, "the driver gives no address of pinned memory"));
  }
  return PinnedMemory(std::move(context), std::move(*memory), address);
}

PinnedMemory::~PinnedMemory() {
  if (context_ == nullptr) return;
  const CurrentContext current(*context_);
  context_->driver().unregister_host(memory_.data());
}

}  // namespace farpage::cuda
