#include "base/memory/mapping.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <utility>

#include "base/units.h"

namespace farpage {
namespace {

constexpr uint64_t kSmallPageBytes = 4 * kKiB;
constexpr uint64_t kHugePageBytes = 2 * kMiB;

}  // namespace

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Mapping::~Mapping() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

Result<Mapping> Mapping::share(int fd, uint64_t bytes, Protection protection, uint64_t offset) {
  const int flags = protection == Protection::kReadWrite ? PROT_READ | PROT_WRITE : PROT_READ;
  return map(fd, offset, bytes, flags, MAP_SHARED);
}

Result<Mapping> Mapping::anonymous(uint64_t bytes) {
  return map(-1, 0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
}

Result<Mapping> Mapping::addresses(uint64_t bytes) {
  return map(-1, 0, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
}

Result<Mapping> Mapping::map(int fd, uint64_t offset, uint64_t bytes, int protection, int flags) {
  const auto failed = [bytes] {
    return fail_errno(errno,
                      fmt::format("cannot map {} of memory (see ulimit -v)", format_bytes(bytes)));
  };
  // The kernel uses huge pages only where address and file offset agree modulo their size, so a
  // larger range is reserved first, and what lies around the aligned part of it is given back.
  const uint64_t slack = bytes >= kHugePageBytes ? kHugePageBytes : 0;
  void* reserved =
      ::mmap(nullptr, bytes + slack, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return failed();
  const auto begin = reinterpret_cast<uintptr_t>(reserved);
  const uintptr_t aligned = slack == 0 ? begin : round_up(begin, kHugePageBytes);
  void* address = ::mmap(reinterpret_cast<void*>(aligned), bytes, protection, flags | MAP_FIXED, fd,
                         static_cast<off_t>(offset));
  if (address == MAP_FAILED) {
    const int error = errno;
    ::munmap(reserved, bytes + slack);
    errno = error;
    return failed();
  }
  const uintptr_t end = round_up(aligned + bytes, kSmallPageBytes);
  const uintptr_t reserved_end = round_up(begin + bytes + slack, kSmallPageBytes);
  if (aligned > begin) ::munmap(reserved, aligned - begin);
  if (reserved_end > end) ::munmap(reinterpret_cast<void*>(end), reserved_end - end);

  ::madvise(address, bytes, MADV_HUGEPAGE);  // refused by some kernels; small pages serve too
  Mapping mapping;
  mapping.data_ = static_cast<std::byte*>(address);
  mapping.bytes_ = bytes;
  return mapping;
}

}  // namespace farpage
