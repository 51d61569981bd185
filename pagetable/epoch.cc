#include "pagetable/epoch.h"

#include <fmt/format.h>

#include <algorithm>
#include <bitset>
#include <string>

#include "base/random.h"
#include "integrity/page_header.h"
#include "pagetable/geometry.h"

namespace farpage {

NodeId node_id(std::string_view name) {
  return make_page_key("farpage node", name).low;
}

const Member* Epoch::find(NodeId node) const {
  const auto found = std::find_if(members.begin(), members.end(),
                                  [node](const Member& member) { return member.node == node; });
  return found == members.end() ? nullptr : &*found;
}

size_t Epoch::holders() const {
  return static_cast<size_t>(std::ranges::count(members, false, &Member::leaving));
}

void Epoch::set_replicas(uint64_t wanted) {
  replicas = std::min<uint64_t>(wanted, holders());
}

void Epoch::give_slots(const std::vector<Member>& before) {
  if (members.size() > kMaxMembers) return;  // validate() says so
  std::bitset<kMaxMembers> taken;
  std::vector<Member*> without;
  for (Member& member : members) {
    const auto earlier = std::ranges::find(before, member.node, &Member::node);
    if (member.slot == kNoSlot && earlier != before.end()) member.slot = earlier->slot;
    if (member.slot < kMaxMembers) {
      taken.set(member.slot);
    } else {
      without.push_back(&member);
    }
  }
  std::ranges::sort(without, {}, &Member::node);
  for (Member* member : without) {
    uint64_t slot = Random::mix(member->node) % kMaxMembers;
    while (taken.test(slot)) slot = (slot + 1) % kMaxMembers;
    taken.set(slot);
    member->slot = static_cast<uint16_t>(slot);
  }
}

uint64_t Epoch::identity() const {
  std::string text;
  const auto add = [&text](uint64_t value) {
    text.append(reinterpret_cast<const char*>(&value), sizeof value);
  };
  add(kPlacementVersion);
  add(number);
  add(replicas);
  add(seed);
  add(page_bytes);
  std::vector<Member> ordered = members;
  std::ranges::sort(ordered, {}, &Member::node);
  for (const Member& member : ordered) {
    add(member.node);
    add(member.incarnation);
    add(member.leaving ? 1 : 0);
    add(member.slot);
  }
  return make_page_key("farpage epoch", text).low;
}

Result<void> validate(const Epoch& epoch) {
  if (epoch.number == 0 || epoch.number > kMaxEpoch) {
    return fail(Code::kInvalid,
                fmt::format("epoch {} is out of range (1 to {})", epoch.number, kMaxEpoch));
  }
  if (epoch.members.empty() || epoch.members.size() > kMaxMembers) {
    return fail(Code::kInvalid, fmt::format("an epoch of {} nodes: name 1 to {}",
                                            epoch.members.size(), kMaxMembers));
  }
  if (epoch.replicas == 0 || epoch.replicas > kMaxReplicas) {
    return fail(Code::kInvalid,
                fmt::format("{} replicas: choose 1 to {}", epoch.replicas, kMaxReplicas));
  }
  if (epoch.replicas > epoch.holders()) {
    return fail(Code::kInvalid,
                fmt::format("{} replicas on {} nodes: name more nodes, or ask for fewer replicas",
                            epoch.replicas, epoch.holders()));
  }
  if (epoch.page_bytes == 0 || epoch.page_bytes > kMaxPageBytes) {
    return fail(Code::kInvalid, fmt::format("a page of {} bytes is out of range (1 to {})",
                                            epoch.page_bytes, kMaxPageBytes));
  }
  std::vector<NodeId> nodes;
  for (const Member& member : epoch.members) nodes.push_back(member.node);
  std::ranges::sort(nodes);
  if (std::ranges::adjacent_find(nodes) != nodes.end()) {
    return fail(Code::kInvalid, "one node stands twice in the list of nodes");
  }
  std::bitset<kMaxMembers> taken;
  for (const Member& member : epoch.members) {
    if (member.slot >= kMaxMembers) {
      return fail(Code::kInvalid,
                  fmt::format("node {:016x} has no slot below {}", member.node, kMaxMembers));
    }
    if (taken.test(member.slot)) {
      return fail(Code::kInvalid, fmt::format("two nodes are in slot {}", member.slot));
    }
    taken.set(member.slot);
  }
  return {};
}

}  // namespace farpage
