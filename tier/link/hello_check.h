#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "base/clock_gap.h"
#include "base/status.h"
#include "control/link.h"
#include "pagetable/epoch.h"

namespace farpage {

// A node's own view of its fleet's epoch, as it tells it with an answer.
struct ToldView {
  EpochTag epoch;
  uint64_t age_ns = 0;   // when the node answered, by its clock
  uint64_t sent_ns = 0;  // the request, by this client's clock
  ClockGap gap;          // as of then
  std::shared_ptr<ControlLink> link;
};

// Identity that this link announces, and the identity it expects. The defaults: a client of a node
// that serves alone.
struct HelloExpectations {
  // The member that says hello; 0: a client, which has a staging for its puts and its touch log.
  NodeId self = 0;
  uint64_t incarnation = 0;  // that member's
  NodeId peer = 0;           // the member that must answer; 0: a node that serves alone
  uint64_t page_bytes = 0;   // of the fleet, which the member must have; 0: any
  // The epoch for the hello; called on the runtime. Empty: {0, 0}.
  std::function<EpochTag()> epoch;
  // Membership is a list: the member must have the same one. With a register it may be ahead, or
  // behind, and a member is known by its incarnation alone.
  bool fixed = true;
  // The peer has told of its view, and this machine was not held since it was asked; called on the
  // runtime. May be empty.
  std::function<void(const ToldView&)> told;
  // Whether the link may rest now; called on the runtime. Empty: always.
  std::function<bool()> may_rest;
};

// Whether the node that answers is the one that the hello was for, and says what can be: the same
// protocol and backend, that member of that fleet, numbers in their ranges. kUnavailable: it is
// none yet.
Result<void> check_hello(const HelloReply& reply, const HelloExpectations& terms,
                         std::string_view backend);

}  // namespace farpage
