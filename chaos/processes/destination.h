#pragma once

#include <cstdint>

namespace farpage::processes {

// Whose memory pages are fetched into.
enum class Destination : uint8_t {
  kHost,
  kGpu,
  kGpuUnchecked,  // the GPU does not look at what copies bring
  kGpuBlocks,     // in pieces, as an engine's paged memory has them
};

}  // namespace farpage::processes
