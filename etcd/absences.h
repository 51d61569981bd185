#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "etcd/away.h"

namespace farpage::etcd {

// Since when this process has not heard of members, in one epoch. Times are of any one clock.
class Absences {
 public:
  // All that are absent now. What was absent in another epoch begins anew.
  void tell(uint64_t epoch, const std::vector<NodeId>& nodes, uint64_t now_ns);
  // Those that have been absent for so long, in the epoch that was told last.
  std::vector<NodeId> for_long(uint64_t epoch, uint64_t least_ns, uint64_t now_ns) const;

 private:
  uint64_t epoch_ = 0;
  std::map<NodeId, uint64_t> since_ns_;
};

}  // namespace farpage::etcd
