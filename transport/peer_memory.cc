#include "transport/peer_memory.h"

#include <fmt/format.h>

#include "base/memory/populate.h"
#include "base/memory/system_memory.h"
#include "base/units.h"

namespace farpage {

Result<void> check_peer_memory(uint64_t bytes, Access access, bool pinned) {
  if (bytes == 0 || bytes > kMaxRegionBytes) {
    return fail(Code::kInvalid, fmt::format("cannot share {} bytes of memory: choose 1 to {}",
                                            bytes, format_bytes(kMaxRegionBytes)));
  }
  if (access == Access::kRemoteRead) return check_memory(bytes, bytes);
  const uint64_t left = available_memory_bytes();
  if (left >= bytes) return {};
  return fail(Code::kExhausted,
              fmt::format("the {} that a client writes to are taken {}, and this process may take "
                          "{} (MemAvailable and its cgroup's limit): lower client.staging_bytes, "
                          "and node.max_staging_bytes so that no client asks for as much",
                          format_bytes(bytes),
                          pinned ? "at once on RDMA" : "as it writes, up to all of them",
                          format_bytes(left)));
}

Result<Mapping> take_peer_memory(uint64_t bytes, Access access, bool pinned) {
  if (auto may = check_peer_memory(bytes, access, pinned); !may) return tl::unexpected(may.error());
  auto mapping = Mapping::anonymous(bytes);
  if (!mapping || access != Access::kRemoteRead) return mapping;
  if (auto done = populate(*mapping, bytes); !done) return tl::unexpected(done.error());
  return mapping;
}

}  // namespace farpage
