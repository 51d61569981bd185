#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "base/runtime.h"
#include "pagetable/epoch_register.h"
#include "tier/link/fleet.h"
#include "tier/link/node_session.h"

namespace farpage {

// A run that is no member yet says hello to those that are. Each looks whether it reaches the run
// in its turn (node/fleet/look_back.h), and refuses it with kOtherEpoch, as no member, once it
// does: then the two have met. On the runtime's thread.
class Meeting {
 public:
  Meeting(Runtime& runtime, Fabric& fabric, std::shared_ptr<FabricGate> gate, const Fleet& fleet,
          const Member& self);
  ~Meeting();

  // Whether all members that live have met this run; begins to meet those that have not.
  // kUnavailable: whom it has not met yet, and why; kInvalid: they differ in something that a
  // person has to mend.
  Result<void> with_all(const RegisteredEpoch& current);

 private:
  std::shared_ptr<NodeSession> reach(NodeId node, uint64_t page_bytes);

  Runtime& runtime_;
  Fabric& fabric_;
  const std::shared_ptr<FabricGate> gate_;
  const Fleet& fleet_;
  const Member self_;
  std::map<NodeId, std::shared_ptr<NodeSession>> links_;
};

}  // namespace farpage
