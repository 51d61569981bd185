#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pagetable/epoch.h"

namespace farpage {

// What a node that is to be a member asks of those who keep a fleet's register, and tells them.
// Called on the runtime.
class Membership {
 public:
  virtual ~Membership() = default;

  // Whether the register knows where this node is, so that it can be dialled.
  virtual bool has_address(NodeId node) const = 0;

  // A node joins once it and all members that live have reached each other. It gives up if that
  // fails for so long, or six times as long if it may still come about by itself.
  virtual uint64_t meet_ns() const = 0;
  // It has given up, for this reason; called again until the process ends.
  virtual void cannot_join(const std::string& why) = 0;

  // Which members this one has not heard of for a lease, in this epoch; again and again.
  virtual void tell_away(uint64_t epoch, const std::vector<NodeId>& nodes) = 0;
};

}  // namespace farpage
