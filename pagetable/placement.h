#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "integrity/page_key.h"
#include "pagetable/epoch.h"
#include "pagetable/slot_order.h"
#include "pagetable/slot_positions.h"

namespace farpage {

// The members that hold one key, as places in Epoch::members. The first is its primary, which
// gives out versions.
class ReplicaSet {
 public:
  size_t size() const { return size_; }
  size_t operator[](size_t rank) const { return members_[rank]; }
  size_t primary() const { return members_[0]; }
  bool contains(size_t member) const;

 private:
  friend class Placement;
  std::array<uint16_t, kMaxReplicas> members_{};
  uint8_t size_ = 0;
};

// Each key orders all slots (pagetable/slot_order.h). Its holders are the members in the first
// slots of that order that are taken. So a node that leaves moves only its own keys, and one that
// joins only those that it takes, as with rendezvous hashing (Thaler and Ravishankar 1998), whose
// cost grows with the members. Here many members are found by a walk along the order, which is
// short where most slots are taken; few members by the position of each. Incarnations do not count,
// and members that are leaving hold nothing. Immutable; allocates nothing after it was made.
//
// All nodes and clients of a fleet have to place keys alike. Whoever changes where a key lies
// raises kPlacementVersion (pagetable/epoch.h) and kControlProtocol (control/messages.h).
class Placement {
 public:
  // `epoch` is valid.
  explicit Placement(const Epoch& epoch);

  ReplicaSet replicas(const PageKey& key) const;

  // One of those that hold keys.
  struct Holder {
    uint16_t slot;
    uint16_t place;  // among the members
  };
  // Nothing: that member holds nothing.
  std::optional<Holder> holder(NodeId node) const;
  // Whether it is one of replicas(key). Of few members, a key that is not is known early.
  bool holds(const Holder& holder, const PageKey& key) const;
  // Of two holders, the one whose slot comes first in this order comes first.
  SlotOrder order(const PageKey& key) const { return {key, salt_}; }

 private:
  static constexpr uint16_t kNobody = kMaxMembers;

  ReplicaSet first_taken(const SlotOrder& order) const;
  ReplicaSet least_positions(const SlotOrder& order) const;

  size_t replicas_;
  uint64_t salt_;
  bool walks_;                 // rather than ask each holder for its position
  std::vector<NodeId> nodes_;  // of holders_
  std::vector<Holder> holders_;
  std::vector<SlotPositions::Lanes> slots_;   // of holders_, and zeros to the end of the last
  std::array<uint16_t, kMaxMembers> places_;  // of who holds keys in each slot, or kNobody
};

}  // namespace farpage
