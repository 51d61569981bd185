#pragma once

#include <cstdint>
#include <memory>

#include "base/units.h"
#include "control/messages.h"
#include "node/clients/memory_budget.h"
#include "node/store/page_store.h"
#include "transport/fabric.h"
#include "transport/source_memory.h"

namespace farpage {

// Memory that a node makes for one client alone, and never hands on (protocol rule 17). To make it
// blocks: the backend allocates, populates and registers memory, and makes queue pairs. So does to
// destroy it: a channel is closed, its queue pairs are gone, before its memory goes, and only then
// is what the client was granted for it given back.

struct ClientStaging {
  MemoryBudget::Grant grant;      // of what its puts go through
  MemoryBudget::Grant log_grant;  // of its touch log
  uint64_t put_bytes = 0;         // of the memory; the log is what follows
  Region memory;
  std::unique_ptr<Target> target;  // after the memory: it goes first
};

struct ClientLane {
  std::unique_ptr<Target> read_target;
};

// Memory of the client itself, which its puts come from.
struct ClientSource {
  MemoryBudget::Grant grant;  // of addresses
  std::unique_ptr<PeerSource> memory;
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

// The memory that a hello asks for, and the grant for it.
struct StagingNeeds {
  uint64_t put_bytes = 0;
  bool has_log = false;
  MemoryBudget::Grant grant;
  MemoryBudget::Grant log_grant;
};

// The grants are of what is made here, and end with it, or when it could not be made.
Result<OfferedStaging> make_staging(Fabric& fabric, StagingNeeds needs);
// Makes queue pairs, and no memory.
Result<OfferedLane> make_lane(Fabric& fabric, const PageStore& store);

}  // namespace farpage
