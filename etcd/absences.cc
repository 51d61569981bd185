#include "etcd/absences.h"

#include <algorithm>

namespace farpage::etcd {

void Absences::tell(uint64_t epoch, const std::vector<NodeId>& nodes, uint64_t now_ns) {
  if (epoch != epoch_) since_ns_.clear();
  epoch_ = epoch;
  std::erase_if(since_ns_, [&](const auto& absent) {
    return std::ranges::find(nodes, absent.first) == nodes.end();
  });
  for (const NodeId node : nodes) since_ns_.try_emplace(node, now_ns);
}

std::vector<NodeId> Absences::for_long(uint64_t epoch, uint64_t least_ns, uint64_t now_ns) const {
  std::vector<NodeId> nodes;
  if (epoch != epoch_) return nodes;
  for (const auto& [node, since_ns] : since_ns_) {
    if (now_ns - since_ns >= least_ns) nodes.push_back(node);
  }
  return nodes;
}

}  // namespace farpage::etcd
