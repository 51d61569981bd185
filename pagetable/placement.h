#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "integrity/page_key.h"
#include "pagetable/epoch.h"

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

// Rendezvous hashing (Thaler and Ravishankar 1998) of a key over an epoch's nodes: a node that
// leaves moves only its own keys, and one that joins only those that it takes. Incarnations do not
// count, and members that are leaving hold nothing. Immutable; allocates nothing after it was made.
class Placement {
 public:
  // `epoch` is valid.
  explicit Placement(const Epoch& epoch);

  ReplicaSet replicas(const PageKey& key) const;

  // One of those that hold keys. Of two holders the one with the higher score for a key comes
  // first, and of equal ones the one that comes first among the members.
  struct Holder {
    uint64_t salt;
    uint16_t place;  // among the members

    uint64_t score(const PageKey& key) const;
  };
  // Nothing: that member holds nothing.
  std::optional<Holder> holder(NodeId node) const;
  // Whether it is one of replicas(key). Of a key that is not, that is known after a few scores.
  bool holds(const Holder& holder, const PageKey& key) const;

 private:
  size_t replicas_;
  std::vector<NodeId> nodes_;  // of holders_
  std::vector<Holder> holders_;
};

}  // namespace farpage
