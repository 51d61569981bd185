#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "node/fleet/page_reader.h"
#include "tier/link/node_session.h"

namespace farpage {

// Another member, as this node reaches it: as any client would, but that it puts nothing. On the
// runtime's thread.
class MemberLink {
 public:
  // A member that has not said hello for `patience_ms` is dialled again.
  // `gate`: the fabric's; what connects may outlive the link, and never what is behind the gate.
  MemberLink(Runtime& runtime, Fabric& fabric, std::shared_ptr<FabricGate> gate,
             ControlDialer& dialer, const HelloExpectations& terms, PoolLanding& landing,
             uint64_t patience_ms);
  ~MemberLink();

  NodeId node() const { return node_; }
  // There is a link that serves. Requests on one that is lost have ended.
  bool reached() const;
  // Nothing was heard of it for a lease; or, if it never was reached, for as long as this patience.
  bool away() const;
  // Why it is not reached.
  std::string why_away() const;
  // Of the member's run that is reached now; 0: none ever was.
  uint64_t incarnation() const;
  // Changes with every new link.
  uint64_t link_number() const { return link_->published().number(); }

  // `done` runs once, later; in the order of the calls for those that are answered.
  void call(Request request, ReplyCallback done);
  PageReader& reader() { return reader_; }
  // For a member that does not take this link for the newest one: a new one takes its place.
  void greet_again();

 private:
  Runtime& runtime_;
  const NodeId node_;
  const uint64_t expected_ns_;  // by when it is reached, if it is there
  std::shared_ptr<NodeSession> link_;
  PageReader reader_;
};

}  // namespace farpage
