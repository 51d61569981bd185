#include "pagetable/lost_keys.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "pagetable/slot_positions.h"

namespace farpage {

LostKeys::Holders LostKeys::holders_of(const Epoch& epoch) {
  Holders holders = {{}, epoch.replicas, epoch.seed};
  for (const Member& member : epoch.members) {
    if (!member.leaving) holders.seats.emplace_back(member.node, member.slot);
  }
  std::ranges::sort(holders.seats);
  return holders;
}

bool LostKeys::enter(const Epoch& epoch) {
  placement_.emplace(epoch);
  own_ = placement_->holder(self_);
  const Holders before = std::exchange(now_, holders_of(epoch));
  joined_.clear();
  // Another rule of who holds what, or an epoch in which it held nothing: each key is asked for.
  const auto is_comparable = [this](const Holders& other) {
    return own_ && other.replicas <= now_.replicas && other.seed == now_.seed &&
           std::ranges::binary_search(other.seats, Seat{self_, own_->slot});
  };
  if (common_ && is_comparable(*common_)) {
    std::vector<Seat> joined;
    std::ranges::set_difference(now_.seats, common_->seats, std::back_inserter(joined));
    for (const Seat& seat : joined) joined_.push_back(*placement_->holder(seat.first));
    std::vector<Seat> both;
    std::ranges::set_intersection(now_.seats, common_->seats, std::back_inserter(both));
    common_ = Holders{std::move(both), now_.replicas, now_.seed};
  } else {
    common_.reset();
  }
  return any() && !(is_comparable(before) && std::ranges::includes(before.seats, now_.seats));
}

void LostKeys::judged() {
  common_ = now_;
  joined_.clear();
}

bool LostKeys::any() const {
  const bool holds_all = own_ && now_.replicas >= now_.seats.size();
  return !holds_all && (!common_ || !joined_.empty());
}

// What this node held, fewer holders than there are replicas came before it: those still do, if
// they are left, and of others only who joined can.
bool LostKeys::has(const PageKey& key) const {
  if (!own_) return true;
  if (common_) {
    const SlotPositions positions(placement_->order(key));
    const uint32_t position = positions.of(own_->slot);
    const auto is_before = [&](const Placement::Holder& other) {
      return positions.of(other.slot) < position;
    };
    if (std::ranges::none_of(joined_, is_before)) return false;
  }
  return !placement_->holds(*own_, key);
}

}  // namespace farpage
