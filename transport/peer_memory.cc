#include "transport/peer_memory.h"

#include <fmt/format.h>

#include "base/populate.h"
#include "base/units.h"

namespace farpage {

Result<Mapping> take_peer_memory(uint64_t bytes, Access access) {
  if (bytes == 0 || bytes > kMaxRegionBytes) {
    return fail(Code::kInvalid, fmt::format("cannot share {} bytes of memory: choose 1 to {}",
                                            bytes, format_bytes(kMaxRegionBytes)));
  }
  const bool readable = access == Access::kRemoteRead;
  if (readable) {
    if (auto enough = check_memory(bytes, bytes); !enough) return tl::unexpected(enough.error());
  }
  auto mapping = Mapping::anonymous(bytes);
  if (!mapping || !readable) return mapping;
  if (auto done = populate(*mapping, bytes); !done) return tl::unexpected(done.error());
  return mapping;
}

}  // namespace farpage
