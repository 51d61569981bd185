#include "tests/transport/cuda/fake/device/device_access.h"

#include <algorithm>

#include "tests/transport/cuda/fake/state.h"

namespace farpage::cuda {

DeviceAccess::~DeviceAccess() {
  const std::lock_guard lock(state().mutex);
  for (const auto& range : used_) --range->users;
}

const std::byte* DeviceAccess::read(uint64_t address, uint64_t bytes, uint64_t alignment) {
  return reach(address, bytes, alignment, false);
}

std::byte* DeviceAccess::write(uint64_t address, uint64_t bytes, uint64_t alignment) {
  return reach(address, bytes, alignment, true);
}

std::byte* DeviceAccess::reach(uint64_t address, uint64_t bytes, uint64_t alignment,
                               bool to_write) {
  if (address % alignment != 0) {
    note(kMisalignedAddress);
    return nullptr;
  }
  const std::lock_guard lock(state().mutex);
  const auto range = find_range(state().ranges, address);
  if (range == nullptr || range->device != context_->device ||
      !range->covers(address, bytes, to_write)) {
    note(kIllegalAddress);
    return nullptr;
  }
  if (std::ranges::find(used_, range) == used_.end()) {
    ++range->users;
    used_.push_back(range);
  }
  return range->memory + (address - range->base);
}

}  // namespace farpage::cuda
