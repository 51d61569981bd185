#include "node/page_store.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/check.h"
#include "integrity/crc32c.h"

namespace farpage {
namespace {

// ε: clocks of two hosts run apart by less than this fraction.
constexpr uint64_t kClockDriftFraction = 64;

uint64_t with_drift(uint64_t duration_ns) {
  return duration_ns + duration_ns / kClockDriftFraction;
}

}  // namespace

Result<std::unique_ptr<PageStore>> PageStore::create(const PageStoreOptions& options,
                                                     Fabric& fabric, const Clock& clock) {
  if (auto valid = validate(options.geometry); !valid) return tl::unexpected(valid.error());
  auto pool = fabric.allocate_readable(options.geometry.pool_bytes());
  if (!pool) return tl::unexpected(pool.error());
  auto index = fabric.allocate_readable(options.geometry.index_bytes());
  if (!index) return tl::unexpected(index.error());
  return std::unique_ptr<PageStore>(
      new PageStore(options, clock, std::move(*pool), std::move(*index)));
}

PageStore::PageStore(const PageStoreOptions& options, const Clock& clock, Region pool, Region index)
    : options_(options),
      clock_(clock),
      pool_(std::move(pool)),
      index_region_(std::move(index)),
      index_(options.geometry,
             {reinterpret_cast<Bucket*>(index_region_.data()), options.geometry.buckets},
             pool_.data()),
      slots_(static_cast<uint32_t>(options.geometry.slots), with_drift(options.reuse_ns)) {}

PageHeader& PageStore::header(uint32_t slot) const {
  return *reinterpret_cast<PageHeader*>(pool_.data() + options_.geometry.slot_offset(slot));
}

Code PageStore::put(const PageKey& key, Version version, std::span<const std::byte> payload,
                    uint32_t payload_crc) {
  if (payload.empty() || payload.size() > options_.geometry.page_bytes) return Code::kInvalid;
  if (version <= index_.floor(key)) return Code::kInvalid;
  if (options_.evict) evict_ahead();
  const std::optional<uint32_t> slot = slots_.take(clock_.now_ns());
  if (!slot) return Code::kExhausted;

  PageHeader& target = header(*slot);
  target = make_page_header(key, version, options_.incarnation,
                            static_cast<uint32_t>(payload.size()), payload_crc);
  auto* bytes = reinterpret_cast<std::byte*>(&target + 1);
  if (copy_with_crc32c(0, bytes, payload.data(), payload.size()) != payload_crc) {
    slots_.release(*slot);
    return Code::kAborted;
  }
  std::atomic_ref<uint64_t>(target.live)
      .store(live_token(key, version, options_.incarnation), std::memory_order_release);
  slots_.publish(*slot);

  if (const std::optional<uint32_t> old = index_.find(key)) {
    index_.replace(key, *old, *slot);
    clear_live(*old);
    return Code::kOk;
  }
  if (index_.insert(key, *slot)) return Code::kOk;
  if (!options_.evict) {
    clear_live(*slot);
    return Code::kExhausted;
  }
  if (const uint32_t displaced = index_.displace(key); slots_.is_live(displaced)) {
    retire(displaced);
    ++evictions_;
  }
  FARPAGE_CHECK(index_.insert(key, *slot));
  return Code::kOk;
}

bool PageStore::remove(const PageKey& key) {
  const std::optional<uint32_t> slot = index_.find(key);
  if (!slot) return false;
  retire(*slot);
  return true;
}

std::optional<PageStore::StoredPage> PageStore::find(const PageKey& key) const {
  const std::optional<uint32_t> slot = index_.find(key);
  if (!slot) return std::nullopt;
  return StoredPage{*slot, header(*slot).payload_bytes};
}

bool PageStore::must_evict() const {
  return options_.evict && slots_.free_count() + slots_.cooling_count() < cooling_target();
}

// Slots cool for a while before they can be used again, so as many are kept free or cooling as puts
// will want in that time.
uint32_t PageStore::cooling_target() const {
  return std::max<uint32_t>(1, static_cast<uint32_t>(options_.geometry.slots / 16));
}

void PageStore::evict_ahead() {
  while (must_evict()) {
    const std::optional<uint32_t> victim = slots_.choose_victim();
    if (!victim) return;
    retire(*victim);
    ++evictions_;
  }
}

void PageStore::retire(uint32_t slot) {
  const PageHeader& page = header(slot);
  index_.raise_floor(page.key, page.version);
  index_.erase(page.key, slot);
  clear_live(slot);
}

// After this no read that starts later accepts the slot, and L(1+ε) after the stamp none that
// started earlier still can (protocol rule 3). A sequentially consistent exchange is the store and
// the full fence.
void PageStore::clear_live(uint32_t slot) {
  std::atomic_ref<uint64_t>(header(slot).live).exchange(0, std::memory_order_seq_cst);
  slots_.retire(slot, clock_.now_ns());
}

}  // namespace farpage
