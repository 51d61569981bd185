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
  return PinnedMemory(std::move(context), std::move(*memory));
}

PinnedMemory::~PinnedMemory() {
  if (context_ == nullptr) return;
  const CurrentContext current(*context_);
  context_->driver().unregister_host(memory_.data());
}

}  // namespace farpage::cuda
