#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/client/node_connection.h"
#include "cli/client/node_conversation.h"
#include "cli/client/signals.h"
#include "etcd/client.h"
#include "etcd/records.h"

namespace farpage {

// The status of a node that is in etcd. Its errors name it; kInvalid: it would report all of its
// tenants at once.
Result<StatusReply> ask_member(const etcd::NodeRecord& node, const ConnectOptions& options,
                               const Interrupts& interrupts);

// A node of a fleet in etcd, at one look.
struct MemberLook {
  NodeId node = 0;
  std::string name;     // empty: no process of it is in etcd
  std::string address;  // likewise
  bool is_member = false;
  bool is_leaving = false;
  uint64_t incarnation = 0;  // that the epoch names
  bool is_current = false;   // that run of it has answered, and is in this epoch
  uint64_t pages = 0;
  uint64_t to_fill = 0;
  uint64_t filled = 0;
  std::string trouble;  // a sentence: why it has not answered

  // Nothing is left to do for it.
  bool is_whole() const { return is_member && is_current && !is_leaving && to_fill == 0; }
  // "serving", "filling", "leaving", "joining" or "silent".
  const char* state() const;
};

struct FleetLook {
  uint64_t epoch = 0;
  uint64_t replicas = 0;
  uint64_t at_ns = 0;
  std::vector<MemberLook> members = {};  // by name

  const MemberLook* find(const std::string& name) const;
  uint64_t to_fill() const;
};

// Asks etcd, and then the nodes for their status, 32 at one time. kNotFound: there is no node.
Result<FleetLook> look_at_fleet(etcd::Client& client, const ConnectOptions& options,
                                const Interrupts& interrupts);

// Pages that were filled in each second between two looks; 0: none.
double filled_per_second(const FleetLook& before, const FleetLook& now);
// Until nothing is left to fill at that rate; 0: nothing is left, or it cannot be told.
uint64_t seconds_left(uint64_t to_fill, double per_second);

}  // namespace farpage
