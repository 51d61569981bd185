#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "etcd/client.h"
#include "etcd/records.h"

namespace farpage::etcd {

// The member that a drain lets leave, through the epochs that follow each other meanwhile.
class Leaving {
 public:
  // In this fleet, which has such a member, it leaves already or is about to.
  Leaving(std::string name, const FleetRecord& fleet);

  // It leaves in this epoch.
  void begun(Revision epoch_revision) { epoch_revision_ = epoch_revision; }
  // The fleet as it is now. kAborted: that member leaves no more, or what it alone held may be
  // lost, as each epoch forgets what was given away in the one before.
  Result<void> follow(const FleetRecord& fleet);
  // Whether it is no member any more, once it was let go. kAborted: it has to hold pages again.
  Result<bool> is_over(const FleetRecord& fleet) const;

  const std::string& name() const { return name_; }
  uint64_t incarnation() const { return incarnation_; }
  // As last seen.
  Revision epoch_revision() const { return epoch_revision_; }
  Revision record_revision() const { return record_revision_; }  // 0: nothing is heard of it

 private:
  const Member* find(const FleetRecord& fleet) const;

  std::string name_;
  uint64_t incarnation_ = 0;
  uint64_t copies_ = 0;         // of each of its pages, at first
  std::vector<Member> others_;  // that may hold the other ones
  uint64_t lost_ = 0;           // of them
  Revision epoch_revision_ = 0;
  Revision record_revision_ = 0;
};

// The records that a drain reads and writes. Each blocks until the deadline at most.

// All that the fleet has there.
Result<FleetRecord> read_fleet(Client& client, uint64_t deadline_ns);

// Begins an epoch in which this node holds nothing and the others fill themselves from it, if it is
// not so already, and tells its revision. kNotFound: no member has this name; kInvalid: no other
// one would be left to hold pages; kAborted: the fleet has another epoch than this one by now.
Result<Revision> begin_leaving(Client& client, const std::string& name, const FleetRecord& fleet,
                               uint64_t deadline_ns);

// Lets the node's process end, if it is still the one that was last seen, in that epoch. kAborted:
// it is not.
Result<void> let_go(Client& client, const Leaving& leaving, uint64_t deadline_ns);

}  // namespace farpage::etcd
