#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "prefetch/access.h"
#include "prefetch/page_list.h"
#include "prefetch/per_page.h"
#include "prefetch/policy.h"
#include "prefetch/resident_set.h"

namespace farpage::vtime {

struct TierOptions {
  uint64_t latency_ns = 10'000;
  uint64_t bytes_per_s = 12'500'000'000;
  uint64_t capacity_pages = 0;  // 0: endless
  // Of a number of a page: where they are fewer than kFullBits, what is fetched from there has lost
  // precision for good, and is so much shorter on its way.
  uint32_t bits = 16;
};
inline constexpr uint32_t kFullBits = 16;

inline constexpr size_t kMaxTiers = 8;

// As on a command line: latency_us=10:gbps=100:pages=20000:bits=8, gigabits a second; what is not
// named is as above.
Result<TierOptions> parse_tier(std::string_view text);
// The last is endless, and the others are not; none is more precise than one before it.
Result<void> validate(const std::vector<TierOptions>& tiers);

// Makes what decides which pages of a tier go to the next one, for a tier of so many.
using MakePlacement = std::function<std::unique_ptr<prefetch::Policy>(uint64_t capacity_pages)>;

// Where pages lie that are not near. A page that leaves the near memory goes to the first tier,
// unless that still has it: a page that is fetched keeps its place, but as a copy, and copies of
// pages that lie nearer go first where there is no room, the oldest of them; then the victim of the
// tier's policy goes to the next tier, unless one below has it. The policies hear of all accesses.
class LowerTiers {
 public:
  LowerTiers(const std::vector<TierOptions>& tiers, const MakePlacement& make_placement);

  // The nearest that has it.
  std::optional<size_t> nearest(prefetch::PageNumber page) const;
  // How precise a page still is that was fetched.
  uint32_t bits(prefetch::PageNumber page) const { return bits_[page]; }

  void on_access(const prefetch::Access& access);
  // It is fetched from the nearest that has it; and then it is not wanted, and written again where
  // its copy went meanwhile.
  void fetch(prefetch::PageNumber page);
  void give_back(prefetch::PageNumber page);
  // It is near no more.
  void keep(prefetch::PageNumber page);

  uint64_t written_pages() const { return written_pages_; }  // into any of them

 private:
  struct Tier {
    Tier(uint64_t pages, std::unique_ptr<prefetch::Policy> made)
        : capacity_pages(pages), policy(std::move(made)), nearest(*policy) {}

    uint64_t capacity_pages;
    std::unique_ptr<prefetch::Policy> policy;
    prefetch::ResidentSet nearest;  // that lie no nearer
    prefetch::PageList copies;      // of those that do
  };

  bool holds(size_t tier, prefetch::PageNumber page) const {
    return ((held_[page] >> tier) & 1U) != 0;
  }
  void write(size_t tier, prefetch::PageNumber page);
  void push_out(size_t tier);

  std::vector<Tier> tiers_;  // but the last, which holds anything
  std::vector<uint32_t> bits_of_tiers_;
  prefetch::PerPage<uint8_t> held_;  // a bit for each tier that has it
  prefetch::PerPage<uint32_t> bits_ = prefetch::PerPage<uint32_t>(kFullBits);
  uint64_t step_ = 0;  // of the last access
  uint64_t written_pages_ = 0;
};

}  // namespace farpage::vtime
