#include "pagetable/placement.h"

#include <algorithm>

#include "base/check.h"
#include "base/random.h"

namespace farpage {

bool ReplicaSet::contains(size_t member) const {
  const auto end = members_.begin() + size_;
  return std::find(members_.begin(), end, member) != end;
}

Placement::Placement(const Epoch& epoch) : replicas_(epoch.replicas) {
  FARPAGE_CHECK(replicas_ >= 1 && replicas_ <= kMaxReplicas);
  for (size_t place = 0; place < epoch.members.size(); ++place) {
    const Member& member = epoch.members[place];
    if (member.leaving) continue;
    holders_.push_back(
        {Random::mix(member.node ^ Random::mix(epoch.seed)), static_cast<uint16_t>(place)});
    nodes_.push_back(member.node);
  }
}

uint64_t Placement::Holder::score(const PageKey& key) const {
  return Random::mix(Random::mix(key.low ^ salt) ^ key.high);
}

std::optional<Placement::Holder> Placement::holder(NodeId node) const {
  const auto found = std::ranges::find(nodes_, node);
  if (found == nodes_.end()) return std::nullopt;
  return holders_[static_cast<size_t>(found - nodes_.begin())];
}

bool Placement::holds(const Holder& holder, const PageKey& key) const {
  const uint64_t score = holder.score(key);
  size_t before = 0;
  for (const Holder& other : holders_) {
    const uint64_t theirs = other.score(key);
    if (theirs < score || (theirs == score && other.place >= holder.place)) continue;
    if (++before == replicas_) return false;
  }
  return true;
}

// The highest scores, in descending order, by insertion: there are few members, and fewer replicas.
ReplicaSet Placement::replicas(const PageKey& key) const {
  ReplicaSet set;
  if (holders_.size() == 1) {
    set.members_[0] = holders_[0].place;
    set.size_ = 1;
    return set;
  }
  std::array<uint64_t, kMaxReplicas> scores{};
  for (const Holder& holder : holders_) {
    const uint64_t score = holder.score(key);
    size_t rank = set.size_;
    while (rank > 0 && scores[rank - 1] < score) --rank;
    if (rank == replicas_) continue;
    if (set.size_ < replicas_) ++set.size_;
    for (size_t below = set.size_ - 1u; below > rank; --below) {
      scores[below] = scores[below - 1];
      set.members_[below] = set.members_[below - 1];
    }
    scores[rank] = score;
    set.members_[rank] = holder.place;
  }
  return set;
}

}  // namespace farpage
