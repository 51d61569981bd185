#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <set>
#include <string_view>
#include <vector>

#include "lab/kvhl/workload.h"
#include "prefetch/importance/scorer.h"
#include "prefetch/policy.h"

namespace farpage::kvhl {

struct TierSpec {
  std::string_view name;
  uint64_t capacity_bytes;
  double read_ms;
  double write_ms;
  double bytes_per_ms;
};
inline constexpr size_t kTiers = 4;
using TierSpecs = std::array<TierSpec, kTiers>;

struct RunResult {
  uint64_t accesses = 0;
  uint64_t misses = 0;
  uint64_t evictions = 0;  // from any tier to the one below
  double latency_ms = 0;   // of everything, one after the other
  uint64_t demand_bytes = 0;
  uint64_t prefetch_bytes = 0;
  uint64_t prefetches = 0;
  uint64_t useful_prefetches = 0;
  uint64_t wasted_prefetches = 0;
  std::array<uint64_t, kTiers> hits = {};  // where the page was
  std::array<uint64_t, kTiers> peak_bytes = {};
};

// KV-Hierarchy-Lab's simulator, which the figures that it has published come from, to the last bit:
// its order of events, and what it does where one would not expect it, too. Nothing overlaps.
//
// A page that is accessed goes to tier 0 from where it is, or from nowhere through tier 3. A page
// that has to make room goes one tier down, and out of the last one nowhere. Room is made before
// the page leaves the tier it comes from. So it may be demoted itself on the way: no tier then
// forgets its place below, and the page is in two tiers.
class Hierarchy {
 public:
  // All must outlive it; without a prefetcher null. `dequantisation_ms`: of any page, at each read.
  Hierarchy(const TierSpecs& tiers, double dequantisation_ms, const Workload& workload,
            prefetch::Scorer& scorer, prefetch::Prefetcher* prefetcher);

  RunResult run();

 private:
  using PageNumber = prefetch::PageNumber;
  struct Tier {
    uint64_t used_bytes = 0;
    std::list<PageNumber> pages;                          // in the order in which they came
    std::vector<std::list<PageNumber>::iterator> places;  // of those that are here; else end()
  };

  bool contains(size_t tier, PageNumber page) const;
  size_t tier_of(PageNumber page) const;  // the first that has it; kTiers: none
  void add(size_t tier, PageNumber page);
  void remove(size_t tier, PageNumber page);

  void access(const prefetch::Access& access);
  void prefetch(uint64_t step);
  void insert_cold(PageNumber page, uint64_t step);
  void promote(size_t from, PageNumber page, uint64_t step, bool is_prefetch);
  void make_room(size_t tier, PageNumber page, uint64_t step);
  void evict(size_t tier, PageNumber page, uint64_t step);
  void transfer(size_t from, size_t to, PageNumber page, bool is_prefetch);

  const TierSpecs& specs_;
  const double dequantisation_ms_;
  const Workload& workload_;
  prefetch::Scorer& scorer_;
  prefetch::Prefetcher* const prefetcher_;
  std::array<Tier, kTiers> tiers_;
  std::set<PageNumber> prefetched_;  // and not accessed or evicted since
  RunResult result_;
};

}  // namespace farpage::kvhl
