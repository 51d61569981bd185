#pragma once

#include <memory>

#include "base/memory/mapping.h"
#include "transport/memory.h"

namespace farpage {

// Of an initiator whose peer's memory is mapped into this process, for who hands it to a device.
// Optional: ask for it with dynamic_cast<MappedPeer*>.
class MappedPeer {
 public:
  virtual ~MappedPeer() = default;

  // The region is the first bytes of the mapping, which stays as long as somebody holds it, also
  // beyond the initiator. Null: it is not mapped.
  virtual std::shared_ptr<const Mapping> mapping_of(const RemoteRegion& region) const = 0;
};

}  // namespace farpage
