#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "transport/fabric.h"

namespace farpage {

struct Posted {
  size_t accepted = 0;  // how many there was room for
  Status status;
};

// Copies operations that a test has made into the initiator's queue; with this deadline, if one is
// given, and otherwise with their own.
inline Posted post_operations(Initiator& initiator, std::span<const Operation> operations,
                              std::optional<uint64_t> deadline_ns = std::nullopt) {
  Posted posted;
  for (const Operation& operation : operations) {
    if (initiator.room() == 0) break;
    Operation& next = initiator.next();
    next = operation;
    next.deadline_ns = deadline_ns.value_or(operation.deadline_ns);
    ++posted.accepted;
  }
  posted.status = initiator.post();
  return posted;
}

// For whatever the peer says that it may be used for.
inline Result<RemoteRegion> import_whole(Initiator& initiator, RegionExport region) {
  const RegionUse use = {region.access, region.bytes};
  return initiator.import_region(std::move(region), use);
}

}  // namespace farpage
