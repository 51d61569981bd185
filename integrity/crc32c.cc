#include "integrity/crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <cstring>

#include "integrity/copy_kernel.h"

namespace farpage {
namespace {

// Measured in docs/performance.md: a chunk that stays in the first-level cache, and while it is
// checked, piece by piece, the next one is already on its way there.
constexpr size_t kChunkBytes = 2048;
constexpr size_t kPieceBytes = 512;
constexpr size_t kLineBytes = 64;
constexpr size_t kIsalMaxBytes = size_t{1} << 30;  // isa-l takes the length as an int
constexpr size_t kLongBytes = 16384;               // below, memcpy is faster than a copy that folds

const CopyKernel& best_kernel() {
  static const CopyKernel& best =
      *std::ranges::find_if(copy_kernels(), [](const CopyKernel& it) { return it.available; });
  return best;
}

}  // namespace

uint32_t crc32c(uint32_t crc, const void* data, size_t bytes) {
  // isa-l does not modify the buffer; its parameter merely lacks the const.
  auto* cursor = static_cast<unsigned char*>(const_cast<void*>(data));
  uint32_t state = ~crc;
  while (bytes > 0) {
    const size_t part = std::min(bytes, kIsalMaxBytes);
    state = crc32_iscsi(cursor, static_cast<int>(part), state);
    cursor += part;
    bytes -= part;
  }
  return ~state;
}

uint32_t copy_then_check(uint32_t crc, void* destination, const void* source, size_t bytes,
                         Stores) {
  auto* to = static_cast<std::byte*>(destination);
  const auto* from = static_cast<const std::byte*>(source);
  while (bytes > 0) {
    const size_t part = std::min(bytes, kChunkBytes);
    std::memcpy(to, from, part);
    from += part;
    bytes -= part;
    const size_t ahead = std::min(bytes, kChunkBytes);
    for (size_t done = 0; done < part; done += kPieceBytes) {
      for (size_t line = done; line < std::min(done + kPieceBytes, ahead); line += kLineBytes) {
        __builtin_prefetch(from + line);
      }
      crc = crc32c(crc, to + done, std::min(kPieceBytes, part - done));
    }
    to += part;
  }
  return crc;
}

uint32_t copy_with_crc32c(uint32_t crc, void* destination, const void* source, size_t bytes,
                          Stores stores) {
  return best_kernel().copy(crc, destination, source, bytes, stores);
}

void copy_unchecked(void* destination, const void* source, size_t bytes, Stores stores) {
  if (bytes >= kLongBytes && best_kernel().outruns_memcpy) {
    best_kernel().copy(0, destination, source, bytes, stores);
  } else {
    std::memcpy(destination, source, bytes);
  }
}

}  // namespace farpage
