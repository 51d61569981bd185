#include "transport/shm/shm_target.h"

#include <atomic>

#include "transport/shm/shm_region.h"

namespace farpage::shm {

Result<Region> ShmTarget::allocate_writable(uint64_t bytes) {
  return make_shared_region(bytes, Access::kRemoteWrite, shared_.id());
}

size_t ShmTarget::poll(std::span<uint32_t> immediates) {
  size_t count = 0;
  RingResult popped = RingResult::kDone;
  while (count < immediates.size() &&
         (popped = arrived_.pop(immediates[count])) == RingResult::kDone) {
    ++count;
  }
  if (popped == RingResult::kBroken) close();
  return count;
}

void ShmTarget::close() {
  shared_.memory().target_closed.store(1, std::memory_order_release);
}

}  // namespace farpage::shm
