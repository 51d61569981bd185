#include "lab/kvhl/hierarchy.h"

#include <algorithm>

#include "base/check.h"

namespace farpage::kvhl {
namespace {

constexpr size_t kPrefetchesMax = 2;  // at each access

}  // namespace

Hierarchy::Hierarchy(const TierSpecs& tiers, double dequantisation_ms, const Workload& workload,
                     prefetch::Scorer& scorer, prefetch::Prefetcher* prefetcher)
    : specs_(tiers),
      dequantisation_ms_(dequantisation_ms),
      workload_(workload),
      scorer_(scorer),
      prefetcher_(prefetcher) {
  for (Tier& tier : tiers_) tier.places.assign(workload.page_bytes.size(), tier.pages.end());
}

RunResult Hierarchy::run() {
  for (const prefetch::Access& one : workload_.accesses) access(one);
  result_.wasted_prefetches += prefetched_.size();
  return result_;
}

bool Hierarchy::contains(size_t tier, PageNumber page) const {
  return tiers_[tier].places[page] != tiers_[tier].pages.end();
}

size_t Hierarchy::tier_of(PageNumber page) const {
  size_t tier = 0;
  while (tier < kTiers && !contains(tier, page)) ++tier;
  return tier;
}

void Hierarchy::add(size_t tier, PageNumber page) {
  if (contains(tier, page)) return;
  Tier& to = tiers_[tier];
  to.places[page] = to.pages.insert(to.pages.end(), page);
  to.used_bytes += workload_.page_bytes[page];
  result_.peak_bytes[tier] = std::max(result_.peak_bytes[tier], to.used_bytes);
}

void Hierarchy::remove(size_t tier, PageNumber page) {
  Tier& from = tiers_[tier];
  from.pages.erase(from.places[page]);
  from.places[page] = from.pages.end();
  from.used_bytes -= workload_.page_bytes[page];
}

// The policy hears of the access before the hierarchy looks where the page is.
void Hierarchy::access(const prefetch::Access& access) {
  const PageNumber page = access.page;
  scorer_.on_access(access);
  if (prefetcher_ != nullptr) prefetcher_->on_access(access);
  ++result_.accesses;
  const size_t tier = tier_of(page);
  if (tier < kTiers) ++result_.hits[tier];
  if (tier == 0) {
    result_.latency_ms += specs_[0].read_ms + dequantisation_ms_;
  } else {
    ++result_.misses;
    if (tier == kTiers) insert_cold(page, access.step);
    promote(tier_of(page), page, access.step, false);
  }
  result_.useful_prefetches += prefetched_.erase(page);
  if (prefetcher_ != nullptr) prefetch(access.step);
}

void Hierarchy::prefetch(uint64_t step) {
  std::array<PageNumber, kPrefetchesMax> candidates = {};
  const size_t named = prefetcher_->candidates(candidates);
  for (size_t i = 0; i < named; ++i) {
    const PageNumber page = candidates[i];
    if (contains(0, page)) continue;
    if (tier_of(page) == kTiers) insert_cold(page, step);
    ++result_.prefetches;
    prefetched_.insert(page);
    promote(tier_of(page), page, step, true);
  }
}

void Hierarchy::insert_cold(PageNumber page, uint64_t step) {
  make_room(kTiers - 1, page, step);
  add(kTiers - 1, page);
  scorer_.on_insert(page, step);
}

void Hierarchy::promote(size_t from, PageNumber page, uint64_t step, bool is_prefetch) {
  make_room(0, page, step);
  if (contains(from, page)) remove(from, page);
  add(0, page);
  transfer(from, 0, page, is_prefetch);
  scorer_.on_insert(page, step);
}

void Hierarchy::make_room(size_t tier, PageNumber page, uint64_t step) {
  while (tiers_[tier].used_bytes + workload_.page_bytes[page] > specs_[tier].capacity_bytes) {
    const std::list<PageNumber>& pages = tiers_[tier].pages;
    FARPAGE_CHECK(!pages.empty());  // a page fits into an empty tier: sweep.cc has looked
    const auto victim = std::ranges::min_element(
        pages, {}, [&](PageNumber each) { return scorer_.score(each, step); });
    evict(tier, *victim, step);
  }
}

void Hierarchy::evict(size_t tier, PageNumber page, uint64_t step) {
  remove(tier, page);
  ++result_.evictions;
  scorer_.on_evict(page, step);
  if (tier == 0) result_.wasted_prefetches += prefetched_.erase(page);
  if (tier + 1 == kTiers) return;
  make_room(tier + 1, page, step);
  add(tier + 1, page);
  transfer(tier, tier + 1, page, false);
}

void Hierarchy::transfer(size_t from, size_t to, PageNumber page, bool is_prefetch) {
  const uint64_t bytes = workload_.page_bytes[page];
  const double bytes_per_ms = std::min(specs_[from].bytes_per_ms, specs_[to].bytes_per_ms);
  const double wire_ms = static_cast<double>(bytes) / bytes_per_ms;
  result_.latency_ms += specs_[from].read_ms + specs_[to].write_ms + wire_ms + dequantisation_ms_;
  (is_prefetch ? result_.prefetch_bytes : result_.demand_bytes) += bytes;
}

}  // namespace farpage::kvhl
