#include <algorithm>
#include <array>

#include "pagetable/index_layout.h"
#include "tier/fetch/lane_engine.h"

namespace farpage {
namespace {

// A key's two buckets are two lines of a memory that no cache holds whole: so many keys ahead of
// the one that is looked up, their lines are asked for.
constexpr size_t kAhead = 8;

// As a one-sided read would bring it: word by word, while the node may be writing.
Bucket read_bucket(const std::byte* from) {
  Bucket bucket;
  const auto* words = reinterpret_cast<const uint64_t*>(from);
  for (uint32_t i = 0; i < kBucketEntries; ++i) {
    bucket.entries[i] = __atomic_load_n(&words[i], __ATOMIC_RELAXED);
  }
  return bucket;
}

}  // namespace

// Empty: it is not mapped, or may not be read now.
std::span<const std::byte> LaneEngine::mapped_index(const LanePeer& peer) const {
  if (!may_begin(peer)) return {};
  const auto* direct = dynamic_cast<const DirectMemory*>(peer.path.channel());
  if (direct == nullptr) return {};
  const auto index = direct->view(peer.path.index());
  const uint64_t bytes = peer.path.view().geometry.buckets * sizeof(Bucket);
  return index.size() < bytes ? std::span<const std::byte>() : index.first(bytes);
}

bool LaneEngine::look_up(std::span<const PageKey> keys, std::span<uint8_t> shown) {
  turn();
  const auto primary = [this](const PageKey& key) -> const LanePeer& {
    return *by_member_[single_ ? 0 : view_->placement.replicas(key).primary()];
  };
  const LanePeer* peer = nullptr;  // of the key that is in hand, and its index
  std::span<const std::byte> index;
  const auto buckets_of = [&](const PageKey& key) {
    if (const LanePeer* next = &primary(key); next != peer) {
      peer = next;
      index = mapped_index(*peer);
    }
    std::array<const std::byte*, 2> buckets = {};
    if (index.empty()) return buckets;
    const auto homes = key_buckets(key, peer->path.view().geometry.buckets);
    for (size_t i = 0; i < homes.size(); ++i) buckets[i] = index.data() + homes[i] * sizeof(Bucket);
    return buckets;
  };
  for (size_t i = 0; i < keys.size() + kAhead; ++i) {
    if (i < keys.size()) {
      for (const std::byte* bucket : buckets_of(keys[i])) __builtin_prefetch(bucket);
    }
    if (i < kAhead) continue;
    const PageKey& key = keys[i - kAhead];
    const auto from = buckets_of(key);
    if (from[0] == nullptr) return false;
    const std::array<Bucket, 2> buckets = {read_bucket(from[0]), read_bucket(from[1])};
    const uint64_t slots = peer->path.view().geometry.slots;
    shown[i - kAhead] = find_candidates(buckets, key, slots).count > 0;
  }
  // Another replica may have what the primary has not.
  if (!single_ && std::ranges::find(shown, 0) != shown.end()) return false;
  // As of any read: whether what it brought may be used is asked afterwards.
  now_ns_ = clock_.now_ns();
  if (fleet_number_ != fleet_->number()) return false;
  return std::ranges::all_of(keys, [&](const PageKey& key) { return may_use(primary(key)); });
}

}  // namespace farpage
