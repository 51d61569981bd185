#include "pagetable/lost_keys.h"

#include <algorithm>
#include <utility>

namespace farpage {

std::vector<NodeId> LostKeys::holders_of(const Epoch& epoch) {
  std::vector<NodeId> holders;
  for (const Member& member : epoch.members) {
    if (!member.leaving) holders.push_back(member.node);
  }
  std::ranges::sort(holders);
  return holders;
}

void LostKeys::enter(const Epoch& epoch) {
  placement_.emplace(epoch);
  own_ = placement_->holder(self_);
  now_ = {holders_of(epoch), epoch.replicas, epoch.seed};
  joined_.clear();
  // Another rule of who holds what, or an epoch in which it held nothing: each key is asked for.
  const bool comparable = common_ && own_ && common_->replicas == now_.replicas &&
                          common_->seed == now_.seed &&
                          std::ranges::binary_search(common_->holders, self_);
  if (!comparable) return common_.reset();
  std::vector<NodeId> joined;
  std::ranges::set_difference(now_.holders, common_->holders, std::back_inserter(joined));
  for (const NodeId node : joined) joined_.push_back(*placement_->holder(node));
  std::vector<NodeId> both;
  std::ranges::set_intersection(now_.holders, common_->holders, std::back_inserter(both));
  common_->holders = std::move(both);
}

void LostKeys::judged() {
  common_ = now_;
  joined_.clear();
}

bool LostKeys::any() const {
  return !common_ || !joined_.empty();
}

// What this node held, fewer holders than there are replicas came before it: those still do, if
// they are left, and of others only who joined can.
bool LostKeys::has(const PageKey& key) const {
  if (!own_) return true;
  if (common_) {
    const uint64_t score = own_->score(key);
    const auto is_before = [&](const Placement::Holder& other) {
      return other.score(key) >= score;
    };
    if (std::ranges::none_of(joined_, is_before)) return false;
  }
  return !placement_->holds(*own_, key);
}

}  // namespace farpage
