#pragma once

#include <cstdint>
#include <memory>

#include "base/units.h"
#include "control/messages.h"
#include "node/memory_budget.h"
#include "node/page_store.h"
#include "transport/fabric.h"

namespace farpage {

// What a node makes for one client alone, and never hands on (protocol rule 17). To make it blocks:
// the backend allocates, populates and registers memory, and makes queue pairs. So does to destroy
// it: a channel is closed, its queue pairs are gone, before its memory goes, and only then is what
// the client was granted for it given back.

struct ClientStaging {
  MemoryBudget::Grant grant;
  Region memory;
  std::unique_ptr<Target> target;  // after the memory: it goes first
};

struct ClientLane {
  MemoryBudget::Grant grant;
  std::unique_ptr<Target> read_target;
  Region touches;
  std::unique_ptr<Target> touch_target;  // after its memory, too
};

// With what its client is told of it.
struct OfferedStaging {
  ClientStaging staging;
  RegionExport memory;
  ChannelOffer offer;
};
struct OfferedLane {
  ClientLane lane;
  OpenLaneReply reply;  // but for the lane's number
};

// The memory of a lane's touch log, in pages of it.
inline constexpr uint64_t kLaneBytes = 20 * kKiB;

// The grant is of what is made here, and ends with it, or when it could not be made.
Result<OfferedStaging> make_staging(Fabric& fabric, uint64_t bytes, MemoryBudget::Grant grant);
Result<OfferedLane> make_lane(Fabric& fabric, const PageStore& store, MemoryBudget::Grant grant);

}  // namespace farpage
