#include "pagetable/placement.h"

#include <algorithm>

#include "base/check.h"
#include "base/random.h"

namespace farpage {
namespace {

constexpr size_t kLanes = SlotPositions::kLanes;
constexpr uint32_t kPlaceBits = 10;
static_assert(kMaxMembers <= 1u << kPlaceBits);

}  // namespace

bool ReplicaSet::contains(size_t member) const {
  const auto end = members_.begin() + size_;
  return std::find(members_.begin(), end, member) != end;
}

Placement::Placement(const Epoch& epoch)
    : replicas_(epoch.replicas), salt_(Random::mix(epoch.seed)) {
  FARPAGE_CHECK(replicas_ >= 1 && replicas_ <= kMaxReplicas);
  places_.fill(kNobody);
  for (size_t place = 0; place < epoch.members.size(); ++place) {
    const Member& member = epoch.members[place];
    if (member.leaving) continue;
    FARPAGE_CHECK(member.slot < kMaxMembers);
    const size_t lane = holders_.size() % kLanes;
    if (lane == 0) slots_.push_back(SlotPositions::Lanes{});
    slots_.back()[lane] = member.slot;
    holders_.push_back({member.slot, static_cast<uint16_t>(place)});
    nodes_.push_back(member.node);
    places_[member.slot] = static_cast<uint16_t>(place);
  }
  replicas_ = std::min(replicas_, holders_.size());
  // A walk passes about kMaxMembers / holders slots for each replica.
  walks_ = holders_.size() * holders_.size() >= replicas_ * kMaxMembers;
}

std::optional<Placement::Holder> Placement::holder(NodeId node) const {
  const auto found = std::ranges::find(nodes_, node);
  if (found == nodes_.end()) return std::nullopt;
  return holders_[static_cast<size_t>(found - nodes_.begin())];
}

bool Placement::holds(const Holder& holder, const PageKey& key) const {
  const SlotOrder order(key, salt_);
  if (walks_) return first_taken(order).contains(holder.place);
  const SlotPositions positions(order);
  const uint32_t position = positions.of(holder.slot);
  size_t before = 0;
  for (size_t first = 0; first < holders_.size(); first += kLanes) {
    const SlotPositions::Lanes others = positions.of(slots_[first / kLanes]);
    const size_t lanes = std::min(kLanes, holders_.size() - first);
    for (size_t lane = 0; lane < lanes; ++lane) before += others[lane] < position ? 1 : 0;
    if (before >= replicas_) return false;
  }
  return true;
}

ReplicaSet Placement::replicas(const PageKey& key) const {
  if (holders_.size() == 1) {
    ReplicaSet set;
    set.members_[0] = holders_[0].place;
    set.size_ = 1;
    return set;
  }
  const SlotOrder order(key, salt_);
  return walks_ ? first_taken(order) : least_positions(order);
}

ReplicaSet Placement::first_taken(const SlotOrder& order) const {
  ReplicaSet set;
  for (uint32_t position = 0; set.size_ < replicas_; ++position) {
    const uint16_t place = places_[order.slot_at(position)];
    if (place != kNobody) set.members_[set.size_++] = place;
  }
  return set;
}

// Each position, with who has it, sinks through the least so far. Without branches: which of two
// is less, no processor could guess.
ReplicaSet Placement::least_positions(const SlotOrder& order) const {
  const SlotPositions positions(order);
  std::array<uint32_t, kMaxReplicas> least;
  least.fill(UINT32_MAX);
  SlotPositions::Lanes eight = {};
  for (size_t at = 0; at < holders_.size(); ++at) {
    if (at % kLanes == 0) eight = positions.of(slots_[at / kLanes]);
    uint32_t ranked = uint32_t{eight[at % kLanes]} << kPlaceBits | holders_[at].place;
    for (size_t rank = 0; rank < replicas_; ++rank) {
      const uint32_t less = std::min(least[rank], ranked);
      ranked = std::max(least[rank], ranked);
      least[rank] = less;
    }
  }
  ReplicaSet set;
  while (set.size_ < replicas_) {
    set.members_[set.size_] = static_cast<uint16_t>(least[set.size_] % (1u << kPlaceBits));
    ++set.size_;
  }
  return set;
}

}  // namespace farpage
