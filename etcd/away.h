#pragma once

#include <cstdint>
#include <string>
#include <vector>

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
std::vector<AwayRecord> decode_away(const std::string& prefix, const TransactionReply& reply);

// A process that is registered.
struct Process {
  NodeId node = 0;
  bool is_new = false;  // it registered after the epoch began, and may not have joined yet
};

// The members that none of the others reaches that live and stay. Where two do not reach each
// other, the one that joined first stays. None where no two of more reach each other.
std::vector<NodeId> reached_by_nobody(const Epoch& epoch, const std::vector<Process>& processes,
                                      const std::vector<AwayRecord>& said);

}  // namespace farpage::etcd
