#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/config/config.h"
#include "base/status.h"
#include "prefetch/policy.h"
#include "tier/ahead/prefetch_options.h"

namespace farpage {

// The table [ahead]: pages that are fetched before they are demanded.
struct AheadOptions {
  static constexpr uint64_t kMostPages = 65'536;
  static constexpr uint64_t kMostHeads = 65'536;
  static constexpr uint64_t kMostLingerMs = 3'600'000;

  uint64_t pages = 0;               // that memory is kept for; 0: none is fetched ahead
  uint64_t page_bytes = 0;          // of one of them; 0: as long as the nodes take
  std::string prefetcher = "none";  // names more pages, from what is observed
  uint64_t heads = 1;               // that are observed, through all layers
  uint64_t linger_ms = 1'000;       // an announced page stays for, after it was to be wanted

  bool is_on() const { return pages > 0; }
  Result<void> validate() const;
  // Of options that are valid.
  PrefetchOptions lane_options() const;
  std::unique_ptr<prefetch::Prefetcher> make_prefetcher() const;
};
std::vector<ConfigField> fields(AheadOptions& options);

}  // namespace farpage
