#pragma once

#include <string_view>

#include "node/store/pool_handoff.h"
#include "pagetable/geometry.h"
#include "transport/fabric.h"

namespace farpage {

struct Pool {
  Region memory;
  Region headers = {};      // where they lie apart from the payloads
  bool has_former = false;  // what a run before this one has left is in it
};

// Memory for so many slots: what the keeper has of the run before, where it has any and the fabric
// can go on with it, and otherwise new. The keeper keeps it from now on. `whose`: pages of another
// one's pool are none of this node's. A null keeper: memory that ends with the process.
// A pool is kept only where headers and payloads lie together.
Result<Pool> take_pool(const Geometry& geometry, Fabric& fabric, PoolHandoff* keeper,
                       std::string_view whose);

}  // namespace farpage
