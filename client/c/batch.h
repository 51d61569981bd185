#pragma once

#include <farpage/farpage.h>

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "client/c/regions.h"
#include "client/statistics.h"
#include "tier/ahead/observed_access.h"
#include "tier/client.h"
#include "transport/cuda/memory/paged_memory.h"

namespace farpage::c_api {

// What a caller has filled is read here, whichever header it was compiled with.

// Pages of a fetch or a put, and the regions that they lie in. An error names the index of the page
// that is wrong.
template <typename Request>
struct Batch {
  std::vector<Request> requests;
  std::vector<const farpage_region*> regions;
};
Result<Batch<PageRequest>> read_fetch(const farpage_page_t* pages, size_t count,
                                      Regions::Reader& regions);
Result<Batch<PutRequest>> read_put(const farpage_page_t* pages, size_t count,
                                   Regions::Reader& regions);
Result<std::vector<ObservedAccess>> read_accesses(const farpage_access_t* accesses, size_t count);
std::vector<PageKey> read_keys(const farpage_key_t* keys, size_t count);

// The pieces are the caller's still.
Result<cuda::GpuBlocks> read_gpu_blocks(const farpage_gpu_blocks_t& blocks);

// Fills what the caller knows of them, as its struct_size says.
Result<void> write_statistics(const Statistics& from, farpage_statistics_t& to);

// Null: nobody is told.
Result<farpage_notification_t> read_notification(const farpage_notification_t* notification);

}  // namespace farpage::c_api
