#pragma once

#include <algorithm>
#include <utility>

#include "base/memory/mapping.h"
#include "tier/client.h"

namespace farpage {

// Memory of a bench that pages land in, or are put from. It is touched already, so that nothing
// that is measured pays for its first use. Outlives the lanes that use it, and not the client.
struct LandingMemory {
  Mapping mapping;
  Region region;  // after the mapping: its registration ends first

  static Result<LandingMemory> create(Client& client, uint64_t bytes) {
    Result<Mapping> mapping = Mapping::anonymous(bytes);
    if (!mapping) return tl::unexpected(mapping.error());
    std::fill_n(mapping->data(), mapping->bytes(), std::byte{0});
    Result<Region> region = client.register_memory({mapping->data(), mapping->bytes()});
    if (!region) return tl::unexpected(region.error());
    return LandingMemory{std::move(*mapping), std::move(*region)};
  }
};

}  // namespace farpage
