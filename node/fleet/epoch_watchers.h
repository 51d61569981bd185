#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <unordered_map>

#include "base/runtime.h"
#include "control/link.h"
#include "node/fleet/node_epoch.h"

namespace farpage {

// Clients that wait for this node to enter another epoch than the one that they know. Once it has,
// it tells them in turns: each of them comes back at once to ask for the members, and renewals are
// not to wait for all of that. On the runtime's thread.
class EpochWatchers {
 public:
  using Answer = std::function<void(Reply)>;

  EpochWatchers(Runtime& runtime, const NodeEpoch& epoch) : runtime_(runtime), epoch_(epoch) {}

  // `known`: of the client. A question of the same client that waits already is answered at once,
  // with the epoch as it is now.
  void add(ClientId client, const EpochTag& known, Answer done);
  void disconnected(ClientId client);
  // The node has entered an epoch.
  void begin_epoch();
  // No epoch will be entered any more: refuses what waits.
  void withdraw();

  size_t waiting() const { return waiting_.size(); }

 private:
  struct Waiting {
    ClientId client;
    EpochTag known;
    Answer done;
  };
  using Place = std::list<Waiting>::iterator;

  bool can_tell(const EpochTag& known) const;
  EpochReply news() const;
  void tell_from(Place next);
  void tell_some(uint64_t delay_ns);
  Answer take(Place waiting);

  Runtime& runtime_;
  const NodeEpoch& epoch_;
  std::list<Waiting> waiting_;  // in the order in which they asked
  std::unordered_map<ClientId, Place> of_client_;
  Place next_ = waiting_.end();  // to be told of the epoch, if it waits for that
  bool telling_ = false;
  std::shared_ptr<bool> alive_ =
      std::make_shared<bool>(true);  // outlived by timers that look at it
};

}  // namespace farpage
