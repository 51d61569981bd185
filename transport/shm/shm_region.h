#pragma once

#include <cstdint>

#include "transport/memory.h"
#include "transport/shm/shared_memory.h"

namespace farpage::shm {

// Keeps shared memory for a Region, and marks it as gone when the region ends.
struct SharedBacking final : Region::Backing {
  explicit SharedBacking(SharedMemory shared) : memory(std::move(shared)) {}
  ~SharedBacking() override;

  SharedMemory memory;
};

Result<Region> make_shared_region(uint64_t bytes, Access access, uint64_t channel);

}  // namespace farpage::shm
