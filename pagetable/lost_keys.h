#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "integrity/page_key.h"
#include "pagetable/epoch.h"
#include "pagetable/placement.h"

namespace farpage {

// Which keys a node has lost, of those that it held in some epoch since it last judged all of its
// pages. Where members only left it has lost none. Where some joined, it has lost a key only to one
// of them: a hash for each that joined, and one of its own, answer for nearly all keys. Not
// thread-safe; has() allocates nothing.
class LostKeys {
 public:
  explicit LostKeys(NodeId self) : self_(self) {}

  // `epoch` has begun, and is valid. False: of the keys that it held in the epoch before this one,
  // it holds all.
  bool enter(const Epoch& epoch);
  // All pages that the node has are of keys that it holds in this epoch.
  void judged();

  // False: the node still holds whatever it held.
  bool any() const;
  // Of a key that it held.
  bool has(const PageKey& key) const;

 private:
  // A node and its slot: one that comes back in another slot takes other keys.
  using Seat = std::pair<NodeId, uint16_t>;
  struct Holders {
    std::vector<Seat> seats;  // in order
    uint64_t replicas;
    uint64_t seed;
  };
  static Holders holders_of(const Epoch& epoch);

  const NodeId self_;
  std::optional<Placement> placement_;  // of the current epoch
  std::optional<Placement::Holder> own_;
  Holders now_ = {};  // of the current epoch
  // Seats of all epochs since judged(), and the most replicas; nothing: any key may be lost.
  std::optional<Holders> common_;
  std::vector<Placement::Holder> joined_;  // holders that some of those epochs did not have
};

}  // namespace farpage
