#include "transport/lasting_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/memory/populate.h"
#include "base/units.h"
#include "transport/peer_memory.h"

namespace farpage {
namespace {

constexpr int kFixedSize = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

Result<UniqueFd> make_file(uint64_t bytes) {
  UniqueFd file(::memfd_create("farpage-pool", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file.valid()) return fail_errno(errno, "memfd_create");
  if (::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0 ||
      ::fcntl(file.get(), F_ADD_SEALS, kFixedSize) != 0) {
    return fail_errno(errno, fmt::format("cannot make a file of {}", format_bytes(bytes)));
  }
  return file;
}

Result<void> check_file(const UniqueFd& file, uint64_t bytes) {
  struct stat status = {};
  const int seals = ::fcntl(file.get(), F_GET_SEALS);
  if (::fstat(file.get(), &status) != 0 || static_cast<uint64_t>(status.st_size) != bytes ||
      seals < 0 || (seals & kFixedSize) != kFixedSize) {
    return fail(Code::kInvalid,
                fmt::format("what was kept is no sealed memory of {}", format_bytes(bytes)));
  }
  return {};
}

}  // namespace

Result<Mapping> take_lasting_memory(uint64_t bytes, UniqueFd& file) {
  if (file.valid()) {
    if (auto valid = check_file(file, bytes); !valid) return tl::unexpected(valid.error());
    auto mapping = Mapping::share(file.get(), bytes, Protection::kReadWrite);
    if (!mapping) return mapping;
    // Its memory is there; where the kernel cannot make page tables, the first touch does.
    ::madvise(mapping->data(), bytes, MADV_POPULATE_WRITE);
    return mapping;
  }
  if (auto may = check_peer_memory(bytes, Access::kRemoteRead, /*pinned=*/false); !may) {
    return tl::unexpected(may.error());
  }
  auto made = make_file(bytes);
  if (!made) return tl::unexpected(made.error());
  auto mapping = Mapping::share(made->get(), bytes, Protection::kReadWrite);
  if (!mapping) return mapping;
  if (auto done = populate(*mapping, bytes); !done) return tl::unexpected(done.error());
  file = std::move(*made);
  return mapping;
}

}  // namespace farpage
