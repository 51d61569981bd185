#pragma once

#include <cstdint>
#include <string>

#include "etcd/client.h"
#include "etcd/records.h"

namespace farpage::etcd {

// What a drain writes. Each blocks until the deadline at most.

// All that the fleet has there.
Result<FleetRecord> read_fleet(Client& client, uint64_t deadline_ns);

// Begins an epoch in which this node holds nothing and the others fill themselves from it, if it is
// not so already. kNotFound: no member has this name; kInvalid: no other one would be left to hold
// pages.
Result<void> begin_leaving(Client& client, const std::string& name, uint64_t deadline_ns);

// Lets the node's process end, if the epoch is still the one whose key has this revision. kAborted:
// it is not.
Result<void> let_go(Client& client, const std::string& name, Revision epoch_revision,
                    uint64_t deadline_ns);

}  // namespace farpage::etcd
