#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace farpage {

// A memory node by its name, wherever it runs.
using NodeId = uint64_t;
NodeId node_id(std::string_view name);

inline constexpr size_t kMaxMembers = 1024;
inline constexpr size_t kMaxReplicas = 8;
inline constexpr uint16_t kNoSlot = kMaxMembers;
// Of the rule by which Placement finds a key's holders in an epoch. 1: rendezvous hashing of the
// nodes' ids.
inline constexpr uint64_t kPlacementVersion = 2;

// One run of one node. `incarnation` is 0 where membership is a list in the configuration: there,
// the node's own hello names its run.
struct Member {
  NodeId node = 0;
  uint64_t incarnation = 0;
  // It is to go: no key is its, and the others fill themselves from what it held before.
  bool leaving = false;
  // Its place in the orders of keys (pagetable/placement.h), below kMaxMembers. It keeps it for as
  // long as it is a member.
  uint16_t slot = kNoSlot;

  friend bool operator==(const Member&, const Member&) = default;
};

// The placement of pages until the next epoch (protocol rule 6). A plain value.
struct Epoch {
  uint64_t number = 0;  // of its versions and messages; never repeats, and only grows
  uint64_t replicas = 1;
  uint64_t seed = 0;        // of the placement
  uint64_t page_bytes = 0;  // the longest page, the same at every member
  std::vector<Member> members;

  const Member* find(NodeId node) const;
  size_t holders() const;  // members that are not leaving
  // As many as are wanted, while there are holders enough.
  void set_replicas(uint64_t wanted);
  // To the members that have none: the slot that the member had in `before`, or else a free one,
  // which follows from the nodes' ids and not from the order of the list.
  void give_slots(const std::vector<Member>& before = {});
  // Of everything above, and of the rule of placement. Two that differ never understand each other:
  // messages carry it.
  uint64_t identity() const;

  friend bool operator==(const Epoch&, const Epoch&) = default;
};

// In a sentence: no member, one twice, two in one slot, more replicas than members, a field out of
// range.
Result<void> validate(const Epoch& epoch);

}  // namespace farpage
