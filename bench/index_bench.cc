#include "bench/index_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "base/memory/system_memory.h"
#include "base/random.h"
#include "base/units.h"
#include "node/store/slot_table.h"
#include "pagetable/geometry.h"
#include "pagetable/location_cache.h"

namespace farpage {
namespace {

constexpr uint64_t kLookups = 4'000'000;                   // at least
constexpr uint64_t kVersionFloorBytes = sizeof(uint64_t);  // one a bucket
constexpr uint64_t kLocationBytesMax =
    128;  // a page, with its key here; for the check of what is available

struct TableCost {
  double lookup_ns = 0;
  double bytes_per_page = 0;
};

std::vector<PageKey> draw_keys(uint64_t count) {
  Random random(count);
  std::vector<PageKey> keys(count);
  for (PageKey& key : keys) key = {random.next(), random.next()};
  return keys;
}

void shuffle(std::vector<PageKey>& keys) {
  Random random(keys.size() + 1);
  for (size_t i = keys.size(); i > 1; --i) std::swap(keys[i - 1], keys[random.below(i)]);
}

Result<TableCost> measure(uint64_t pages) {
  Result<LocationCache> cache = LocationCache::create(pages);
  if (!cache) return tl::unexpected(cache.error());
  std::vector<PageKey> keys = draw_keys(pages);
  for (uint64_t i = 0; i < pages; ++i) cache->insert(keys[i], {i, 1});
  shuffle(keys);

  const uint64_t rounds = (kLookups + pages - 1) / pages;
  uint64_t found = 0;
  const auto start = std::chrono::steady_clock::now();
  for (uint64_t round = 0; round < rounds; ++round) {
    for (uint64_t i = 0; i < pages;) {
      Location location;
      found += cache->find(keys[i], location) ? 1 : 0;
      // Never true; but the next lookup cannot begin before this one has its answer.
      i += location.slot > kMaxSlots ? 2 : 1;
    }
  }
  const std::chrono::duration<double, std::nano> elapsed = std::chrono::steady_clock::now() - start;
  if (found < rounds * pages / 100 * 99) {
    return fail(Code::kSystem,
                fmt::format("the page table lost pages: {} of {} lookups found theirs", found,
                            rounds * pages));
  }
  return TableCost{elapsed.count() / static_cast<double>(rounds * pages),
                   static_cast<double>(cache->bytes()) / static_cast<double>(pages)};
}

}  // namespace

Result<IndexBenchResult> run_index_bench(uint64_t pages) {
  const uint64_t available = available_memory_bytes();
  if (pages == 0 || pages > kMaxSlots || pages > available / kLocationBytesMax) {
    return fail(Code::kInvalid,
                fmt::format("{} pages are out of range: choose 1 to {}, for which there is memory",
                            pages, std::min(kMaxSlots, available / kLocationBytesMax)));
  }
  const Result<TableCost> reference = measure(kReferencePages);
  if (!reference) return tl::unexpected(reference.error());
  const Result<TableCost> cost = measure(pages);
  if (!cost) return tl::unexpected(cost.error());
  const Geometry sample = {64 * kKiB, 0, 0};
  const Result<Geometry> geometry = make_geometry(sample.page_bytes, pages * sample.slot_bytes());
  if (!geometry) return tl::unexpected(geometry.error());

  const uint64_t index_bytes = geometry->index_bytes() + geometry->buckets * kVersionFloorBytes;
  return IndexBenchResult{
      pages, cost->lookup_ns, reference->lookup_ns, cost->bytes_per_page,
      static_cast<double>(SlotTable::bytes_per_slot()) +
          static_cast<double>(index_bytes) / static_cast<double>(geometry->slots)};
}

}  // namespace farpage
