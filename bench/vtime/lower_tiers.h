#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "prefetch/access.h"
#include "prefetch/page_list.h"
#include "prefetch/per_page.h"

namespace farpage::vtime {

struct TierOptions {
  uint64_t latency_ns = 10'000;
  uint64_t bytes_per_s = 12'500'000'000;
  uint64_t capacity_pages = 0;  // 0: endless
};

inline constexpr size_t kMaxTiers = 8;

// As on a command line: latency_us=10:gbps=100:pages=20000, gigabits a second; what is not named is
// as above.
Result<TierOptions> parse_tier(std::string_view text);
// The last is endless, and the others are not.
Result<void> validate(const std::vector<TierOptions>& tiers);

// Where pages lie that are not near. What leaves the near memory goes to the first tier, unless
// that has it still, for a page that is fetched keeps its place; and what finds no room there
// pushes out what was used longest ago, to the next one, unless one below has it.
class LowerTiers {
 public:
  explicit LowerTiers(const std::vector<TierOptions>& tiers);

  // The nearest that has it.
  std::optional<size_t> nearest(prefetch::PageNumber page) const;
  void use(size_t tier, prefetch::PageNumber page) { tiers_[tier].pages.move_to_back(page); }
  // It is near no more.
  void keep(prefetch::PageNumber page);

  uint64_t written_pages() const { return written_pages_; }  // into any of them

 private:
  struct Tier {
    uint64_t capacity_pages;
    prefetch::PageList pages;  // by use
  };

  void write(size_t tier, prefetch::PageNumber page);

  std::vector<Tier> tiers_;
  prefetch::PerPage<uint8_t> held_;  // a bit for each tier that has it
  uint64_t written_pages_ = 0;
};

}  // namespace farpage::vtime
