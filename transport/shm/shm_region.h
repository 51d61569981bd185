#pragma once

#include <cstdint>

#include "transport/local_registrations.h"
#include "transport/memory.h"
#include "transport/shm/shared_memory.h"

namespace farpage::shm {

// Keeps shared memory for a Region, and marks it as gone when the region ends.
struct SharedBacking final : Region::Backing {
  explicit SharedBacking(SharedMemory shared) : memory(std::move(shared)) {}
  ~SharedBacking() override;

  SharedMemory memory;
  uint64_t source_key = 0;  // of what may be a source of writes
  std::shared_ptr<LocalRegistrations> sources;
};

// `sources`: where its memory is registered as a source of writes, if it is one.
Result<Region> make_shared_region(uint64_t bytes, Access access, uint64_t channel,
                                  std::shared_ptr<LocalRegistrations> sources = nullptr);
// Of memory that has been made.
Result<Region> share_memory(SharedMemory memory, uint64_t bytes, Access access,
                            std::shared_ptr<LocalRegistrations> sources);

}  // namespace farpage::shm
