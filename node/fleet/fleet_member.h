#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/runtime.h"
#include "control/link.h"
#include "node/fleet/backfill.h"
#include "node/fleet/epoch_watchers.h"
#include "node/fleet/foreign_pages.h"
#include "node/fleet/holdings.h"
#include "node/fleet/look_back.h"
#include "node/fleet/meeting.h"
#include "node/fleet/member_link.h"
#include "node/fleet/node_epoch.h"
#include "node/fleet/replica_receiver.h"
#include "node/fleet/replica_sender.h"
#include "node/settings/options.h"
#include "node/store/page_store.h"
#include "tier/link/fleet.h"

namespace farpage {

// A node's run as a member of a fleet: it replicates pages of which it is primary, takes over those
// of other primaries, fills itself and lets others fill themselves. On the runtime's thread.
class FleetMember {
 public:
  struct Hooks {
    // Puts of the one before that are not acknowledged will not be; their answers come in turns.
    std::function<void()> epoch_changed;
    std::function<void()> left_out;  // this run is over; called last
  };

  // `opens_ns`: when this run may first take puts and replicas.
  static Result<std::unique_ptr<FleetMember>> create(const NodeOptions& options, Runtime& runtime,
                                                     Fabric& fabric, const Fleet& fleet,
                                                     const Member& self, PageStore& store,
                                                     uint64_t opens_ns, Hooks hooks);
  // Waits for a connect to another member that is under way.
  ~FleetMember();
  // Joins, and reaches for the others.
  void start();

  // Answers what waits: this run is over.
  void withdraw();

  const NodeEpoch& epoch() const { return epoch_; }
  ReplicaSender& replica_sender() { return replica_sender_; }

  // Why this hello is refused.
  std::optional<Refusal> check(const HelloRequest& hello) const;
  // That was accepted.
  void greeted(ClientId client, const HelloRequest& hello);
  // Replicate, Holdings, Report and Epoch.
  void handle(ClientId client, Request request, std::function<void(Reply)> done);
  void disconnected(ClientId client);
  // Damaged pages that this node has found in its own pool, and dropped.
  void repair(const PageKey& key) { backfill_.repair({&key, 1}); }

  void describe(FleetStatus& status) const;

 private:
  FleetMember(const NodeOptions& options, Runtime& runtime, Fabric& fabric, const Fleet& fleet,
              const Member& self, PageStore& store, PoolLanding landing, uint64_t opens_ns,
              Hooks hooks);
  void entered();
  std::function<Result<void>(const RegisteredEpoch&)> met();
  void reach_for_others();
  void tell_away() const;
  bool may_be_member(const HelloRequest& hello) const;
  void watch();
  MemberLink* peer(NodeId node) const;
  Reply answer(ClientId client, const HoldingsRequest& request);
  Reply answer(const ReportRequest& request);
  EpochReply whole_epoch() const;
  bool may_be_stale(const PageKey& key);

  struct KnownPeer {
    std::unique_ptr<MemberLink> peer;
    uint64_t link_number = 0;  // that has been seen
  };

  Runtime& runtime_;
  Fabric& fabric_;
  const Fleet& fleet_;
  PageStore& store_;
  const uint64_t lease_ms_;
  const Hooks hooks_;
  const std::shared_ptr<FabricGate> gate_;  // of all links: members that leave are not waited for
  PoolLanding landing_;
  std::unique_ptr<Meeting> meeting_;     // until it has joined
  std::unique_ptr<LookBack> look_back_;  // null: others may join unmet
  NodeEpoch epoch_;
  EpochWatchers watchers_;
  ForeignPages foreign_;
  Holdings holdings_;
  std::map<NodeId, KnownPeer> peers_;
  // No members any more, but something that is read from them has not ended.
  std::vector<std::unique_ptr<MemberLink>> leaving_;
  ReplicaSender replica_sender_;
  ReplicaReceiver replica_;
  Backfill backfill_;
  std::unordered_map<ClientId, HelloRequest> members_;  // sessions
  uint64_t dropped_ = 0;
  // Keys from clients' reports that this member has forwarded to others since then.
  std::unordered_set<PageKey> asked_;
  uint64_t asked_since_ns_ = 0;
  std::shared_ptr<bool> alive_ =
      std::make_shared<bool>(true);  // outlived by timers that look at it
};

}  // namespace farpage
