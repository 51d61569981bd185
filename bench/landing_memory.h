#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/memory/mapping.h"
#include "base/unique_fd.h"
#include "tier/client.h"

namespace farpage {

// Memory of a bench that pages land in, or are put from. It is touched already, so that nothing
// that is measured pays for its first use. Outlives the lanes that use it, and not the client.
struct LandingMemory {
  UniqueFd file;  // behind the mapping, if it is one of a file: what has no path is found by it
  Mapping mapping;
  Region region;  // after the mapping: its registration ends first

  static Result<LandingMemory> create(Client& client, uint64_t bytes) {
    return create(client, {}, Mapping::anonymous(bytes));
  }

  // The same in a file in memory, as an engine's pool in /dev/shm is: a node on this host reads it
  // in place.
  static Result<LandingMemory> create_in_file(Client& client, uint64_t bytes) {
    UniqueFd file(::memfd_create("farpage-bench", MFD_CLOEXEC));
    if (!file.valid() || ::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) {
      return fail_errno(errno, "cannot make a file in memory");
    }
    auto mapping = Mapping::share(file.get(), bytes, Protection::kReadWrite);
    return create(client, std::move(file), std::move(mapping));
  }

 private:
  static Result<LandingMemory> create(Client& client, UniqueFd file, Result<Mapping> mapping) {
    if (!mapping) return tl::unexpected(mapping.error());
    std::fill_n(mapping->data(), mapping->bytes(), std::byte{0});
    Result<Region> region = client.register_memory({mapping->data(), mapping->bytes()});
    if (!region) return tl::unexpected(region.error());
    return LandingMemory{std::move(file), std::move(*mapping), std::move(*region)};
  }
};

}  // namespace farpage
