#include "base/memory/populate.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

#include "base/memory/system_memory.h"
#include "base/units.h"

namespace farpage {
namespace {

constexpr uint64_t kPopulateStepBytes = 64 * kMiB;
constexpr int kMadviseCollapse = 25;  // MADV_COLLAPSE, Linux 6.1; missing in older headers

// Where memory gets no huge pages by itself, one touched byte in each lets the kernel
// collapse the rest of it into one, which is also ten times faster than small pages. Refused: small
// pages serve too.
void make_huge(std::byte* begin, uint64_t bytes) {
  for (uint64_t at = 0; at < bytes; at += 2 * kMiB) {
    *const_cast<volatile std::byte*>(begin + at) = std::byte{0};
  }
  ::madvise(begin, bytes, kMadviseCollapse);
}

}  // namespace

Result<void> check_memory(uint64_t bytes, uint64_t pool_bytes) {
  const uint64_t left = available_memory_bytes();
  if (left >= bytes) return {};
  return fail(Code::kExhausted,
              fmt::format("a pool of {} needs more memory than this process may take ({} left by "
                          "MemAvailable and its cgroup's limit): choose a smaller pool_bytes or "
                          "raise the limit",
                          format_bytes(pool_bytes), format_bytes(left)));
}

Result<void> populate(const Mapping& mapping, uint64_t pool_bytes) {
  for (uint64_t offset = 0; offset < mapping.bytes(); offset += kPopulateStepBytes) {
    const uint64_t step = std::min(kPopulateStepBytes, mapping.bytes() - offset);
    if (auto enough = check_memory(step, pool_bytes); !enough) return enough;
    std::byte* begin = mapping.data() + offset;
    make_huge(begin, step);
    if (::madvise(begin, step, MADV_POPULATE_WRITE) == 0) continue;
    if (errno != EINVAL) {
      return fail_errno(errno,
                        fmt::format("cannot populate a pool of {}", format_bytes(pool_bytes)));
    }
    for (uint64_t at = 0; at < step; at += 4 * kKiB) {  // kernels before 5.14
      *const_cast<volatile std::byte*>(begin + at) = std::byte{0};
    }
  }
  return {};
}

}  // namespace farpage
