#include "node/store/page_store.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/check.h"
#include "integrity/crc32c.h"
#include "integrity/page_check.h"
#include "pagetable/guards.h"

namespace farpage {
namespace {

// ε: clocks of two hosts run apart by less than this fraction.
constexpr uint64_t kClockDriftFraction = 64;

// Slots that one put gives back, so that none holds up the thread: the next one goes on.
constexpr uint32_t kMostAtOnce = 4096;

uint64_t with_drift(uint64_t duration_ns) {
  return duration_ns + duration_ns / kClockDriftFraction;
}

}  // namespace

Result<std::unique_ptr<PageStore>> PageStore::create(const PageStoreOptions& options,
                                                     Fabric& fabric, const Clock& clock,
                                                     PoolHandoff* keeper, std::string_view whose) {
  if (auto valid = validate(options.geometry); !valid) return tl::unexpected(valid.error());
  const auto policy = choose_eviction(options.eviction);
  if (!policy) return tl::unexpected(policy.error());
  auto pool = take_pool(options.geometry, fabric, keeper, whose);
  if (!pool) return tl::unexpected(pool.error());
  auto index = fabric.allocate_readable(options.geometry.index_bytes());
  if (!index) return tl::unexpected(index.error());
  return std::unique_ptr<PageStore>(
      new PageStore(options, clock, std::move(*pool), std::move(*index), *policy));
}

PageStore::PageStore(const PageStoreOptions& options, const Clock& clock, Pool pool, Region index,
                     const std::optional<prefetch::ChosenPolicy>& policy)
    : options_(options),
      clock_(clock),
      pool_(std::move(pool.memory)),
      headers_(std::move(pool.headers)),
      index_region_(std::move(index)),
      index_(options.geometry,
             {reinterpret_cast<Bucket*>(index_region_.data()), options.geometry.buckets},
             headers().data()),
      slots_(static_cast<uint32_t>(options.geometry.slots), with_drift(options.reuse_ns)),
      name_spaces_(slots_.size()) {
  if (pool.has_former) find_former();
  if (!policy || !options.evict) return;
  // As many pages are there once a put has been done.
  prefetch::Setting setting;
  setting.budget_pages = slots_.size() - cooling_target() + 1;
  ranked_ = std::make_unique<RankedPages>(policy->make(setting), slots_.size());
}

// A reader of the run before may be at any of them still: none is free until it has cooled. And
// what is not proven now is not to be proven by the next run.
void PageStore::find_former() {
  for (uint64_t slot = 0; slot < options_.geometry.slots; ++slot) (void)slots_.take(0);
  former_ = RecoveredPages(options_.geometry, headers().data(),
                           [this](uint32_t slot) { clear_live(slot); });
}

void PageStore::adopt(uint32_t slot) {
  const PageHeader page = header(slot);
  (void)publish(slot, page.key, page.version, page.payload_bytes, page.payload_crc,
                page.name_space);
}

bool PageStore::adopt(const PageKey& key, Version version) {
  const std::optional<uint32_t> slot = former_.take(key, version);
  if (slot) adopt(*slot);
  return slot.has_value();
}

size_t PageStore::adopt_all(uint64_t epoch) {
  while (const auto page = former_.take_any()) {
    if (version_epoch(page->version) < epoch) {
      adopt(page->slot);
    } else {
      clear_live(page->slot);
    }
  }
  return slots_.live_count();
}

void PageStore::drop_former(size_t most) {
  for (; most > 0; --most) {
    const auto page = former_.take_any();
    if (!page) return;
    clear_live(page->slot);
  }
}

PageHeader& PageStore::header(uint32_t slot) const {
  return *reinterpret_cast<PageHeader*>(headers().data() + geometry().header_offset(slot));
}

std::byte* PageStore::payload(uint32_t slot) const {
  return pool_.data() + geometry().payload_offset(slot);
}

Slice PageStore::header_slice(uint32_t slot) const {
  return headers().slice(geometry().header_offset(slot), sizeof(PageHeader));
}

Slice PageStore::payload_slice(uint32_t slot, uint64_t bytes) const {
  return pool_.slice(geometry().payload_offset(slot), bytes);
}

std::optional<uint32_t> PageStore::locate(const PageKey& key) const {
  const auto found = index_.find(key);
  return found ? found : index_.find_damaged(key);
}

std::optional<uint32_t> PageStore::take() {
  if (options_.evict) evict_ahead();
  const bool none_cools = slots_.next_take_ns() == kNever;
  for (uint32_t left = std::min(cooling_target(), kMostAtOnce); none_cools && left > 0; --left) {
    if (!give_back_one()) break;
  }
  return slots_.take(clock_.now_ns());
}

// Of what no client reads. False: there is nothing.
bool PageStore::give_back_one() {
  if (const auto dead = slots_.oldest_dead()) {
    drop_dead(*dead);
    return true;
  }
  if (former_.size() == 0) return false;
  drop_former(1);
  return true;
}

Code PageStore::put(const PageKey& key, Version version, std::span<const std::byte> payload,
                    uint32_t payload_crc, bool in_order, uint32_t name_space) {
  return put(key, version, payload.size(), payload_crc, in_order, name_space, [&](std::byte* to) {
    return std::optional(copy_with_crc32c(0, to, payload.data(), payload.size()));
  });
}

Code PageStore::put(const PageKey& key, Version version, const SourcePayload& payload,
                    uint32_t payload_crc, bool in_order, uint32_t name_space) {
  return put(key, version, payload.bytes, payload_crc, in_order, name_space,
             [&](std::byte* to) { return payload.source.copy(to, payload.offset, payload.bytes); });
}

// `copy(to)`: the CRC of what it has copied there; nothing: it could not.
template <typename Copy>
Code PageStore::put(const PageKey& key, Version version, uint64_t payload_bytes,
                    uint32_t payload_crc, bool in_order, uint32_t name_space, const Copy& copy) {
  if (payload_bytes == 0 || payload_bytes > options_.geometry.page_bytes) return Code::kInvalid;
  if (!in_order && version <= index_.floor(key)) return Code::kInvalid;
  want(key);
  const std::optional<uint32_t> slot = take();
  if (!slot) return Code::kExhausted;
  if (copy(payload(*slot)) != std::optional(payload_crc)) {
    slots_.release(*slot);
    return Code::kAborted;
  }
  return publish(*slot, key, version, static_cast<uint32_t>(payload_bytes), payload_crc,
                 name_space);
}

Code PageStore::publish(uint32_t slot, const PageKey& key, Version version, uint32_t payload_bytes,
                        uint32_t payload_crc, uint32_t name_space) {
  highest_version_ = std::max(highest_version_, version);
  PageHeader& target = header(slot);
  target =
      make_page_header(key, version, options_.incarnation, payload_bytes, payload_crc, name_space);
  std::atomic_ref<uint64_t>(target.live)
      .store(live_token(key, version, options_.incarnation), std::memory_order_release);
  slots_.publish(slot);
  name_spaces_.came(slot, name_space);

  // One whose key is damaged gives way, too: it would else keep its slot until it is evicted.
  if (const std::optional<uint32_t> old = locate(key)) {
    index_.replace(key, *old, slot);
    if (enforced(Guard::kLiveWord) && enforced(Guard::kLiveWordBeforeAck)) zero_live(*old);
    came(slot, key);
    cool(*old);
    return Code::kOk;
  }
  if (!index_.insert(key, slot)) {
    const auto displaced = index_.in_the_way(
        key, [this](uint32_t other) { return options_.evict && !slots_.is_pinned(other); });
    if (!displaced) {
      clear_live(slot);
      return Code::kExhausted;
    }
    retire(*displaced);
    ++evictions_;
    FARPAGE_CHECK(index_.insert(key, slot));
  }
  came(slot, key);
  return Code::kOk;
}

void PageStore::came(uint32_t slot, const PageKey& key) {
  if (ranked_ != nullptr) ranked_->come(key, slot);
}

bool PageStore::remove(const PageKey& key) {
  const std::optional<uint32_t> slot = locate(key);
  if (!slot) return false;
  retire(*slot);
  return true;
}

std::optional<PageStore::StoredPage> PageStore::find(const PageKey& key) const {
  const std::optional<uint32_t> slot = index_.find(key);
  if (!slot) return std::nullopt;
  const PageHeader& page = header(*slot);
  if (header_crc(page) != page.header_crc) return std::nullopt;
  return StoredPage{*slot, page.payload_bytes, page.version};
}

bool PageStore::remove(const PageKey& key, Version version) {
  const bool found = remove(key);
  index_.raise_floor(key, version);
  return found;
}

bool PageStore::is_whole(uint32_t slot, const PageKey& key) const {
  const PageHeader page = header(slot);
  PageExpectation expected;
  expected.key = key;
  expected.incarnation = options_.incarnation;
  return check_header(page, expected) == PageFinding::kGood &&
         page.payload_bytes <= options_.geometry.page_bytes &&
         crc32c(0, payload(slot), page.payload_bytes) == page.payload_crc;
}

Code PageStore::check(const PageKey& key) {
  const std::optional<uint32_t> slot = locate(key);
  if (!slot) return Code::kNotFound;
  if (is_whole(*slot, key)) return Code::kOk;
  const PageHeader page = header(*slot);
  const bool version_is_whole = header_crc(page) == page.header_crc;
  index_.raise_floor(key, version_is_whole ? page.version - 1 : highest_version_);
  index_.erase(key, *slot);
  clear_live(*slot);
  return Code::kAborted;
}

PageStore::SlotFinding PageStore::check_slot(uint32_t slot) {
  if (!slots_.is_live(slot)) return {};
  const PageHeader page = header(slot);
  // A page that is whole needs no look at the index, which costs as much as the CRC of 4 KiB.
  if (is_whole(slot, page.key)) return {Code::kOk, page.payload_bytes, page.key};
  if (header_crc(page) == page.header_crc) return {check(page.key), page.payload_bytes, page.key};
  index_.erase_damaged(slot, highest_version_);
  clear_live(slot);
  return {Code::kAborted, sizeof page, std::nullopt};
}

uint64_t PageStore::mend_index(uint32_t first, uint32_t end) {
  const auto bucket = [this](uint32_t slot) {
    return static_cast<uint64_t>(static_cast<unsigned __int128>(slot) * options_.geometry.buckets /
                                 slots_.size());
  };
  return index_.mend(bucket(first), bucket(end));
}

void PageStore::pin(uint32_t slot, Version version) {
  slots_.pin(slot);
  pinned_[slot] = version;
}

// A pin ends with its page, too, and the slot's next one may have been pinned since.
void PageStore::unpin(uint32_t slot, Version version) {
  const auto pinned = pinned_.find(slot);
  if (pinned == pinned_.end() || pinned->second != version) return;
  pinned_.erase(pinned);
  slots_.unpin(slot);
}

void PageStore::kill_if(uint32_t first, uint32_t end,
                        const std::function<bool(const PageKey&)>& foreign) {
  for (uint32_t slot = first; slot < end; ++slot) {
    const PageHeader& page = header(slot);
    if (!slots_.is_live(slot) || !foreign(page.key)) continue;
    // No client accepts it, and its entry would be looked for in the whole index: the scrubber's.
    if (header_crc(page) != page.header_crc) continue;
    unpublish(slot);
    zero_live(slot);
    if (ranked_ != nullptr) ranked_->go(slot);
    name_spaces_.went(slot);
    slots_.kill(slot);
  }
}

// A node that reads such a slot later finds no version in it, and one that has read it already is
// done before the slot has cooled.
void PageStore::drop_dead(uint32_t slot) {
  std::atomic_ref<uint64_t>(header(slot).version).exchange(0, std::memory_order_seq_cst);
  slots_.retire(slot, clock_.now_ns());
}

PageStore::Flushed PageStore::flush(uint32_t name_space, uint32_t first, uint32_t end) {
  Flushed flushed;
  for (uint32_t slot = first; slot < end; ++slot) {
    if (!is_of(name_space, slot)) continue;
    if (slots_.is_pinned(slot)) {
      ++flushed.pinned;
    } else if (flush_slot(slot)) {
      ++flushed.evicted;
    }
  }
  evictions_ += flushed.evicted;
  return flushed;
}

// A page that is counted is known without its header, which may be damaged.
bool PageStore::is_of(uint32_t name_space, uint32_t slot) const {
  const uint32_t counted = name_spaces_.tag(slot);
  return (counted != 0 ? counted : header(slot).name_space) == name_space;
}

// False: there is no page in it.
bool PageStore::flush_slot(uint32_t slot) {
  if (slots_.is_live(slot)) {
    retire(slot);
  } else if (slots_.is_dead(slot)) {
    drop_dead(slot);
  } else if (former_.drop(header(slot).key, slot)) {
    clear_live(slot);
  } else {
    return false;
  }
  return true;
}

uint32_t PageStore::walk(
    uint32_t first, uint32_t most,
    const std::function<bool(uint32_t, const PageHeader&, bool)>& visit) const {
  const uint32_t end =
      static_cast<uint32_t>(std::min<uint64_t>(slots_.size(), uint64_t{first} + most));
  for (uint32_t slot = first; slot < end; ++slot) {
    const bool dead = slots_.serves_fills(slot);
    if (!dead && !slots_.is_live(slot)) continue;
    if (!visit(slot, header(slot), dead)) return slot;
  }
  return end < slots_.size() ? end : 0;
}

void PageStore::touch(uint32_t slot) {
  slots_.touch(slot);
  if (ranked_ != nullptr) ranked_->use(slot);
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
  for (uint32_t left = kMostAtOnce; left > 0 && must_evict(); --left) {
    if (!evict_one()) return;
  }
}

bool PageStore::evict_one() {
  if (give_back_one()) return true;
  const std::optional<uint32_t> victim = choose_victim();
  if (!victim) return false;
  retire(*victim);
  ++evictions_;
  return true;
}

// Where a policy names many in a row that are pinned, CLOCK finds one that is not.
std::optional<uint32_t> PageStore::choose_victim() {
  std::optional<uint32_t> victim;
  if (ranked_ != nullptr) {
    victim = ranked_->victim([this](uint32_t slot) { return !slots_.is_pinned(slot); });
  }
  return victim ? victim : slots_.choose_victim();
}

void PageStore::cool(uint32_t slot) {
  if (ranked_ != nullptr) ranked_->go(slot);
  name_spaces_.went(slot);
  slots_.retire(slot, clock_.now_ns());
}

void PageStore::retire(uint32_t slot) {
  unpublish(slot);
  if (enforced(Guard::kLiveWord) && enforced(Guard::kKillOnFree)) zero_live(slot);
  cool(slot);
}

void PageStore::unpublish(uint32_t slot) {
  const PageHeader& page = header(slot);
  // A key that was damaged at rest would leave the page's entry behind, and a version close its
  // bucket for ever.
  if (header_crc(page) != page.header_crc) return index_.erase_damaged(slot, highest_version_);
  index_.raise_floor(page.key, page.version);
  index_.erase(page.key, slot);
}

// After this no read that starts later accepts the slot. A sequentially consistent exchange is the
// store and the full fence.
void PageStore::zero_live(uint32_t slot) {
  std::atomic_ref<uint64_t>(header(slot).live).exchange(0, std::memory_order_seq_cst);
}

// L(1+ε) after the stamp none that started earlier still can (protocol rule 3).
void PageStore::clear_live(uint32_t slot) {
  zero_live(slot);
  cool(slot);
}

}  // namespace farpage
