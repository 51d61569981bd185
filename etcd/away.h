#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "etcd/messages.h"
#include "pagetable/epoch.h"

// Whom members do not reach: docs/formats/etcd.md.
namespace farpage::etcd {

// What one member says, in one epoch. None stands in etcd of a member that reaches all others.
struct AwayRecord {
  NodeId by = 0;
  uint64_t epoch = 0;
  std::vector<NodeId> nodes;

  friend bool operator==(const AwayRecord&, const AwayRecord&) = default;
};

std::string away_key(const std::string& prefix, NodeId by);
std::string encode(const AwayRecord& record);
Transaction read_away(const std::string& prefix);
Result<std::vector<AwayRecord>> decode_away(const std::string& prefix,
                                            const TransactionReply& reply);

// The members that none of the others reaches that live and stay. Where several do not reach each
// other, those that joined first stay. `living`: of whom a process is known.
std::vector<NodeId> reached_by_nobody(const Epoch& epoch, const std::vector<NodeId>& living,
                                      const std::vector<AwayRecord>& said);

}  // namespace farpage::etcd
