#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/runtime.h"
#include "control/link.h"
#include "node/clients/client_budget.h"
#include "node/clients/client_jobs.h"
#include "node/clients/push_path.h"
#include "transport/fabric_gate.h"

namespace farpage {

// Writes pages into the landings of the clients that ask for them: their push lanes. On the
// runtime's thread, but for what blocks, which is offloaded: to connect to a client, and to end its
// connection.
class Pusher {
 public:
  struct Limits {
    uint64_t lanes = 0;          // of one client
    uint64_t landing_bytes = 0;  // of one lane
    uint64_t patience_ns = 0;    // no page goes out later than this after it was asked for
  };

  Pusher(Runtime& runtime, Fabric& fabric, PageStore& store, ClientJobs& jobs,
         const Limits& limits);
  ~Pusher();

  // `done` runs once, when the lane is there or refused, unless the client has ended before.
  void open(ClientId client, ClientBudget& budget, OpenPushRequest request,
            std::function<void(Reply)> done);
  Reply push(ClientId client, const PushRequest& request);
  // All of the client's lanes.
  void end(ClientId client);
  const PushCounts& counts() const { return counts_; }

 private:
  struct Lane {
    uint64_t id;
    MemoryBudget::Grant grant;
    std::unique_ptr<PushPath> path;
    bool active = false;  // it is in `active_`
  };
  // The rest of a lane: its connection goes, with its mappings, and then the grant.
  struct Remains {
    MemoryBudget::Grant grant;
    std::unique_ptr<Initiator> channel;
  };
  struct Active {
    ClientId client;
    uint64_t lane;
  };
  struct LaneTurn {
    uint64_t moved_pages;
    bool goes_on;  // something is left to do
  };
  struct Client {
    bool opening = false;
    std::vector<Lane> lanes;
  };
  using Connected = Result<std::unique_ptr<PushPath>>;

  Result<void> check(const Client& client, const OpenPushRequest& request) const;
  Refusal refuse(const Error& error);
  void opened(ClientId client, Connected path, MemoryBudget::Grant grant,
              const std::function<void(Reply)>& done);
  void end(MemoryBudget::Grant grant, PushPath& path);
  Lane* find(const Active& lane);
  LaneTurn turn(const Active& active, uint64_t now_ns);
  void pump();
  void pump_in(uint64_t delay_ns);

  Runtime& runtime_;
  Fabric& fabric_;
  PageStore& store_;
  ClientJobs& jobs_;  // ends channels
  const Limits limits_;
  const std::shared_ptr<FabricGate> gate_;
  std::unordered_map<ClientId, Client> clients_;
  // Lanes on which something waits or is under way, in the order of their turns.
  std::deque<Active> active_;
  size_t turns_in_vain_ = 0;  // of them, since one moved something
  uint64_t last_lane_ = 0;
  uint64_t connecting_ = 0;
  PushCounts counts_;
  bool pumping_ = false;
  std::shared_ptr<bool> alive_ =
      std::make_shared<bool>(true);  // outlived by callbacks that look at it
};

}  // namespace farpage
