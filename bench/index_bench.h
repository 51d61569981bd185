#pragma once

#include <cstdint>

#include "base/status.h"

namespace farpage {

struct IndexBenchResult {
  uint64_t pages = 0;
  double lookup_ns = 0;            // in random order, each after the one before
  double lookup_ns_reference = 0;  // the same over kReferencePages
  double client_bytes_per_page = 0;
  double node_bytes_per_slot =
      0;  // index, slot table and version floors; without the slots themselves

  double ratio() const { return lookup_ns_reference > 0 ? lookup_ns / lookup_ns_reference : 0; }
};

inline constexpr uint64_t kReferencePages = 100'000;

// Fills a client's page table with `pages` locations, and looks each of them up.
Result<IndexBenchResult> run_index_bench(uint64_t pages);

}  // namespace farpage
