#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "chaos/replica_sets.h"
#include "pagetable/epoch.h"

namespace farpage::processes {

// A node, as it tells itself.
struct NodeState {
  NodeId node = 0;
  uint64_t incarnation = 0;
  uint64_t evictions = 0;

  friend bool operator==(const NodeState&, const NodeState&) = default;
};

// The acknowledged pages, never removed, that must still be there after a round: those that some
// node had in its set when the round began, with all nodes members and nothing left to fill, and
// that node still is the same incarnation and has evicted nothing. One that is left out of an epoch
// comes back as another incarnation; and a node that is in a key's set among all nodes is in it
// among any of them. So it had the page in every epoch since.
class KeptPages {
 public:
  // `whole`: the epoch of all nodes.
  KeptPages(Epoch whole, std::vector<NodeState> began)
      : whole_(std::move(whole)), began_(std::move(began)) {}

  bool must_be_there(const PageKey& key, std::span<const NodeState> now) const {
    return chaos::has_keeper(whole_, {&whole_, 1}, key,
                             [&](size_t node) { return is_same(node, now); });
  }

  // At any time between, whatever was repaired by then: where that is so of every node of its set.
  // No other one was in it.
  bool must_have_stayed(const PageKey& key, std::span<const NodeState> now) const {
    for (size_t node = 0; node < began_.size(); ++node) {
      if (!is_same(node, now) && chaos::holds(whole_, began_[node].node, key)) return false;
    }
    return true;
  }

  std::span<const NodeState> began() const { return began_; }

 private:
  bool is_same(size_t node, std::span<const NodeState> now) const {
    return began_[node].incarnation == now[node].incarnation &&
           began_[node].evictions == now[node].evictions;
  }

  Epoch whole_;
  std::vector<NodeState> began_;
};

}  // namespace farpage::processes
