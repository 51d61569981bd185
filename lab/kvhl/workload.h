#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "prefetch/access.h"

namespace farpage::kvhl {

// One of KV-Hierarchy-Lab's workloads, as files: NAME.trace.csv (step,page_id), and for each
// quantisation NAME.QUANTISATION.pages.csv (page_id,layer,head_group,token_start,token_end,
// size_bytes).
struct Workload {
  std::string name;
  std::vector<uint64_t> page_bytes;  // by page
  std::vector<prefetch::Access> accesses;
};

// The names of those in a folder, in alphabetical order.
Result<std::vector<std::string>> workloads_in(const std::string& folder);

// Errors name file and line.
Result<Workload> read_workload(const std::string& folder, const std::string& name,
                               const std::string& quantisation);

// Of one NAME.trace.csv alone, pages numbered in the order in which they are first named.
Result<std::vector<prefetch::Access>> read_accesses(const std::string& path);

}  // namespace farpage::kvhl
