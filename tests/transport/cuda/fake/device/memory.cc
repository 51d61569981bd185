#include "tests/transport/cuda/fake/device/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <new>
#include <utility>

namespace farpage::cuda {
namespace {

constexpr uint64_t kHostPage = 4096;

constexpr uint64_t round_up(uint64_t bytes) {
  return (bytes + kHostPage - 1) / kHostPage * kHostPage;
}

}  // namespace

std::shared_ptr<Physical> Physical::make(uint64_t bytes, int device) {
  const int descriptor = ::memfd_create("farpage-fake-gpu", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (descriptor < 0) return nullptr;
  std::shared_ptr<Physical> made(new Physical(descriptor, round_up(bytes), device));
  // udmabuf takes only what cannot shrink.
  const bool ready = ::ftruncate(descriptor, static_cast<off_t>(made->bytes_)) == 0 &&
                     ::fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK) == 0;
  return ready ? made : nullptr;
}

Physical::~Physical() {
  ::close(descriptor_);
}

Reservation::Reservation(uint64_t bytes, uint64_t alignment)
    : begin_(nullptr), all_bytes_(round_up(bytes) + kHostPage + alignment), at_(nullptr) {
  begin_ =
      ::mmap(nullptr, all_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (begin_ == MAP_FAILED) throw std::bad_alloc();
  at_ = static_cast<std::byte*>(begin_);
  if (alignment != 0) at_ += (alignment - reinterpret_cast<uint64_t>(at_) % alignment) % alignment;
}

Reservation::~Reservation() {
  ::munmap(begin_, all_bytes_);
}

bool Range::map(uint64_t offset, Mapping mapping) {
  void* const at = reached->at() + offset;
  if (::mmap(at, mapping.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
             mapping.physical->descriptor(), 0) != at) {
    return false;
  }
  mappings[offset] = std::move(mapping);
  return true;
}

void Range::unmap(uint64_t offset) {
  const auto gone = mappings.find(offset);
  std::byte* const at = reached->at() + offset;
  // Else device work would go on reading what is gone, and no test would see it.
  if (::mmap(at, gone->second.bytes, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != at) {
    std::abort();
  }
  mappings.erase(gone);
}

bool Range::covers(uint64_t address, uint64_t count, bool to_write) const {
  if (address < base || count > bytes || address - base > bytes - count) return false;
  if (on_host()) return mapped_for_device && !(to_write && read_only);
  uint64_t at = address - base;
  const uint64_t end = at + count;
  while (at < end) {
    auto mapping = mappings.upper_bound(at);
    if (mapping == mappings.begin()) return false;
    --mapping;
    const uint64_t mapped_end = mapping->first + mapping->second.bytes;
    if (at >= mapped_end || !mapping->second.readable) return false;
    if (to_write && !mapping->second.writable) return false;
    at = mapped_end;
  }
  return true;
}

std::shared_ptr<Range> find_range(const Ranges& ranges, uint64_t address) {
  for (const auto& range : ranges) {
    if (address >= range->base && address - range->base < range->bytes) return range;
  }
  return nullptr;
}

std::shared_ptr<Range> find_host_range(const Ranges& ranges, const void* memory, uint64_t count) {
  const auto* const at = static_cast<const std::byte*>(memory);
  for (const auto& range : ranges) {
    if (!range->on_host() || at < range->memory) continue;
    const auto offset = static_cast<uint64_t>(at - range->memory);
    if (count <= range->bytes && offset <= range->bytes - count) return range;
  }
  return nullptr;
}

}  // namespace farpage::cuda
