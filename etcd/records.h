#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "etcd/messages.h"
#include "pagetable/epoch_register.h"

// The records of a fleet in etcd, below its prefix: docs/formats/etcd.md.
namespace farpage::etcd {

// 1: epochs had no slots, and did not say how keys are placed.
inline constexpr uint64_t kRecordFormat = 2;

// Settings that all nodes and clients of a fleet share for as long as it lasts.
struct Terms {
  uint64_t lease_ms = 0;  // `view_lease`
  uint64_t page_bytes = 0;
  uint64_t replicas = 0;  // once there are members enough
  uint64_t seed = 0;
  uint64_t id = 0;  // drawn by who began it: an etcd that was made anew has another

  friend bool operator==(const Terms&, const Terms&) = default;
  bool agrees_with(const Terms& other) const;  // in all but the id
};

// A process that lives, for as long as its lease does.
struct NodeRecord {
  std::string name;
  std::string address;  // as net/address/address.h takes it
  uint64_t owner = 0;   // the place of its state file, which one process at a time can hold
  LeaseId lease = 0;
  Revision revision = 0;
  NodeId id = node_id(name);
};

struct FleetRecord {
  Revision revision = 0;          // of the whole store, when it was read
  std::optional<Terms> terms;     // none: no node has begun this fleet
  RegisteredEpoch registered;     // number 0: none yet
  Revision epoch_revision = 0;    // of its key; 0: there is none
  std::vector<NodeRecord> nodes;  // by name
  // Names of nodes that hold nothing any more, and may end; sorted.
  std::vector<std::string> drained;
  std::map<NodeId, uint64_t> confirmations;  // the last epoch that each has entered

  const NodeRecord* find(NodeId node) const;
  // That it is the fleet that was known by this id. kDenied: etcd's data was lost since, and
  // nothing of what is told now has to do with what was told before.
  Result<void> check_id(uint64_t id) const;
};

std::string terms_key(const std::string& prefix);
std::string epoch_key(const std::string& prefix);
std::string confirmed_key(const std::string& prefix, NodeId node);
std::string node_key(const std::string& prefix, const std::string& name);
std::string drained_key(const std::string& prefix, const std::string& name);

std::string encode(const Terms& terms);
std::string encode(const Epoch& epoch);
std::string encode(const NodeRecord& node);
std::string encode_confirmed(uint64_t number);

// The terms alone, linearizable. Its header says whether anything was written since another read.
Transaction read_terms(const std::string& prefix);
// All of it, in one linearizable transaction that only gets.
Transaction read_fleet(const std::string& prefix);
// Its answer. kInvalid: another program wrote there, or another release of this one.
Result<FleetRecord> decode_fleet(const std::string& prefix, const TransactionReply& reply);

// The terms, and what was written since `known` was read, likewise; the epoch if it is not the one
// that was written at that revision.
Transaction read_changes(const std::string& prefix, const FleetRecord& known);
// `known` with its answer. kAborted: the terms are others, or something was erased since, so that
// only read_fleet tells what there is; kInvalid: as above.
Result<FleetRecord> apply_changes(const std::string& prefix, const FleetRecord& known,
                                  const TransactionReply& reply);

}  // namespace farpage::etcd
