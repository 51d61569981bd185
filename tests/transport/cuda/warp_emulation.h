#pragma once

#include <cstddef>
#include <cstdint>

namespace farpage {

// CRC-32C as `warps` (2 or 4) warps of a GPU compute it together, by the kernels' own code: the 32
// lanes of each go in step. It reads up to 3 bytes behind the page, as the kernels do.
uint32_t emulated_crc(const std::byte* page, int bytes, int warps);

}  // namespace farpage
