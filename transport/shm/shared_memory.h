#pragma once

#include <cstdint>

#include "base/memory/mapping.h"
#include "base/unique_fd.h"
#include "transport/memory.h"

namespace farpage::shm {

// A page behind the shared bytes, in the same memfd, by which an importer knows what it has been
// given and whether the registration still stands.
struct Trailer {
  uint64_t magic;
  uint64_t bytes;
  uint64_t channel;  // kRemoteWrite: the channel that it belongs to; 0 otherwise
  uint32_t access;
  uint32_t generation;
  uint32_t registered;  // 1 until the owner destroys the region
};

inline constexpr uint64_t kTrailerMagic = 0x314D48535F475246;  // "FRG_SHM1"
inline constexpr uint64_t kTrailerBytes = 4096;

// Memory of this process behind a memfd that peers map.
//
// kRemoteRead: every page present before create() returns (or an error that names the limit it
// met), then sealed FUTURE_WRITE, SHRINK, GROW and SEAL: no descriptor of it, however it was
// reopened, gives a writable mapping (protocol rule 14). kRemoteWrite: pages come at first touch;
// sealed SHRINK, GROW, SEAL.
struct SharedMemory {
  UniqueFd fd;
  Mapping mapping;  // `bytes` rounded up to a page, then the trailer

  static Result<SharedMemory> create(uint64_t bytes, Access access, uint64_t channel);

  Trailer& trailer() const;
};

// The content of a kRemoteRead memory of so many bytes, from its kept file. The seal lets no
// process write to it again.
Result<Mapping> map_kept_memory(const UniqueFd& file, uint64_t bytes);

// A peer's memory, mapped here: read-only for kRemoteRead. Refuses descriptors that are not sealed,
// whose owner could shorten the file, and huge pages, where it could make a hole that nothing
// fills: a read would then be a fatal signal.
Result<Mapping> map_peer_memory(const RegionExport& region, uint64_t channel);

uint64_t trailer_offset(uint64_t bytes);

}  // namespace farpage::shm
