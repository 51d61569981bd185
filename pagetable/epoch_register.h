#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/status.h"
#include "pagetable/epoch.h"

namespace farpage {

struct RegisteredEpoch {
  Epoch epoch;
  std::vector<NodeId> confirmed;    // members that have entered it (protocol rule 8)
  std::vector<NodeId> silent = {};  // members of whom no process is known to live

  bool all_confirmed() const;
};

// The one place that says which epoch it is, shared by all nodes and clients of a fleet, and
// linearizable: what a read answers was true at some moment between call and answer, and a replace
// that was answered is seen by every read that begins later. Each of them has an instance of its
// own.
//
// Threading: called on the runtime; `done` runs once, on the runtime, and never inside the call. An
// error (kUnavailable, kTimeout) says nothing of what has happened there.
class EpochRegister {
 public:
  virtual ~EpochRegister() = default;

  // Never from a cache, a watch or a follower: views are leased from the sending of this (protocol
  // rule 12). Number 0: no node has begun an epoch yet.
  virtual void read(std::function<void(Result<RegisteredEpoch>)> done) = 0;

  // Puts `next`, whose number is `current` + 1, in the place of epoch `current`, confirmed by no
  // node. kAborted: it is not the current one any more.
  virtual void replace(uint64_t current, Epoch next, std::function<void(Result<void>)> done) = 0;

  // This node has entered epoch `number`. kAborted: as above.
  virtual void confirm(NodeId node, uint64_t number, std::function<void(Result<void>)> done) = 0;

  // `changed` is called when a read may bring another epoch than the last one, until what this
  // returns is let go. A hint that may come late, for nothing, or never.
  [[nodiscard]] virtual std::shared_ptr<void> when_changed(
      const std::function<void()>& /*changed*/) {
    return nullptr;
  }
};

}  // namespace farpage
