#pragma once

#include <cstdint>

#include "base/memory/mapping.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "transport/memory.h"

namespace farpage {

// A fabric whose readable memory can outlive its process, at a keeper of the file behind it.
// Optional: ask for it with dynamic_cast<LastingMemory*>.
class LastingMemory {
 public:
  virtual ~LastingMemory() = default;

  // As Fabric::allocate_readable(). `file`, if there is one, is that of a region of so many bytes
  // whose process has ended: the new region begins with what is in it, as that memory itself or as
  // a copy; otherwise zeroed. In any case, `file` then is the new region's: to be kept, and never
  // for peers. An error leaves it as it was.
  virtual Result<Region> allocate_lasting(uint64_t bytes, UniqueFd& file) = 0;
};

// Memory of at least so many bytes behind `file`, for a backend that registers it where it lies:
// that file's own, or of a new one, sealed so that no process can shorten it. All of it is present.
Result<Mapping> take_lasting_memory(uint64_t bytes, UniqueFd& file);

}  // namespace farpage
