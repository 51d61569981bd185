#include "transport/shm/shared_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/memory/populate.h"
#include "base/units.h"

namespace farpage::shm {
namespace {

constexpr uint64_t kMaxBytes = uint64_t{1} << 46;
constexpr int kFixedSize = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

uint32_t next_generation() {
  static std::atomic<uint32_t> last{0};
  return ++last;
}

// Why a file is no memory of so many bytes with its trailer and these seals; null: it is.
const char* why_no_memory(const UniqueFd& file, uint64_t total, int seals) {
  // First of all, for this question goes to no file system: a peer's own could leave it unanswered.
  const int present = ::fcntl(file.get(), F_GET_SEALS);
  if (present < 0 && errno == EBADF) return "no valid descriptor came with it";
  if (present < 0 || (present & seals) != seals) return "it is not sealed";
  // A hole in huge pages is filled from those that are free: where there are none, a process that
  // touches it gets a fatal signal. No memory that create() makes lies in them.
  struct statfs kind;
  if (::fstatfs(file.get(), &kind) != 0 || kind.f_type != TMPFS_MAGIC) {
    return "it lies in huge pages; share memory of a memfd that is made without MFD_HUGETLB";
  }
  struct stat status;
  if (::fstat(file.get(), &status) != 0 || static_cast<uint64_t>(status.st_size) != total) {
    return "its size is not as announced";
  }
  return nullptr;
}

}  // namespace

uint64_t trailer_offset(uint64_t bytes) {
  return round_up(bytes, kTrailerBytes);
}

Trailer& SharedMemory::trailer() const {
  return *reinterpret_cast<Trailer*>(mapping.data() + mapping.bytes() - kTrailerBytes);
}

Result<SharedMemory> SharedMemory::create(uint64_t bytes, Access access, uint64_t channel) {
  if (bytes == 0 || bytes > kMaxBytes) {
    return fail(Code::kInvalid, fmt::format("cannot share {} bytes of memory: choose 1 to {}",
                                            bytes, format_bytes(kMaxBytes)));
  }
  const bool readable = access == Access::kRemoteRead;
  const uint64_t total = trailer_offset(bytes) + kTrailerBytes;
  if (readable) {
    if (auto enough = check_memory(total, bytes); !enough) return tl::unexpected(enough.error());
  }
  SharedMemory memory;
  memory.fd.reset(::memfd_create("farpage", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory.fd.valid()) return fail_errno(errno, "memfd_create");
  if (::ftruncate(memory.fd.get(), static_cast<off_t>(total)) != 0) {
    return fail_errno(errno, fmt::format("cannot size shared memory to {}", format_bytes(total)));
  }
  auto mapping = Mapping::share(memory.fd.get(), total, Protection::kReadWrite);
  if (!mapping) return tl::unexpected(mapping.error());
  memory.mapping = std::move(*mapping);
  if (readable) {
    if (auto done = populate(memory.mapping, bytes); !done) return tl::unexpected(done.error());
  }
  memory.trailer() = {.magic = kTrailerMagic,
                      .bytes = bytes,
                      .channel = channel,
                      .access = static_cast<uint32_t>(access),
                      .generation = next_generation(),
                      .registered = 1};
  const int seals = kFixedSize | (readable ? F_SEAL_FUTURE_WRITE : 0);
  if (::fcntl(memory.fd.get(), F_ADD_SEALS, seals) != 0) {
    return fail_errno(errno, "cannot seal shared memory (Linux 5.1 or later is needed)");
  }
  return memory;
}

Result<Mapping> map_kept_memory(const UniqueFd& file, uint64_t bytes) {
  const uint64_t total = trailer_offset(bytes) + kTrailerBytes;
  if (const char* why = why_no_memory(file, total, kFixedSize | F_SEAL_FUTURE_WRITE)) {
    return fail(Code::kInvalid, std::string("the memory that was kept is refused: ") + why);
  }
  return Mapping::share(file.get(), total, Protection::kReadOnly);
}

Result<Mapping> map_peer_memory(const RegionExport& region, uint64_t channel) {
  const auto refuse = [](const char* why) {
    return fail(Code::kProtocol, std::string("the peer's shared memory is refused: ") + why);
  };
  if (region.bytes == 0 || region.bytes > kMaxBytes) return refuse("its size is out of range");
  if (!region.opaque.empty()) return refuse("it carries what shm does not know");
  if (!region.place.is_host()) return refuse("it is not host memory");
  if (region.access == Access::kLocal) return refuse("it is not for peers");
  const uint64_t total = trailer_offset(region.bytes) + kTrailerBytes;
  const bool readable = region.access == Access::kRemoteRead;
  const int seals = kFixedSize | (readable ? F_SEAL_FUTURE_WRITE : 0);
  if (const char* why = why_no_memory(region.fd, total, seals); why != nullptr) return refuse(why);

  auto mapping = Mapping::share(region.fd.get(), total,
                                readable ? Protection::kReadOnly : Protection::kReadWrite);
  if (!mapping) return mapping;
  Trailer trailer;
  std::memcpy(&trailer, mapping->data() + total - kTrailerBytes, sizeof trailer);
  if (trailer.magic != kTrailerMagic || trailer.bytes != region.bytes ||
      trailer.access != static_cast<uint32_t>(region.access) || trailer.registered != 1) {
    return refuse("it does not describe itself as announced");
  }
  if (!readable && trailer.channel != channel) return refuse("it belongs to another channel");
  // Page tables now, not at the first fetch; where the kernel cannot, the first touch makes them.
  if (readable) ::madvise(mapping->data(), total, MADV_POPULATE_READ);
  return mapping;
}

}  // namespace farpage::shm
