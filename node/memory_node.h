#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "base/runtime.h"
#include "control/link.h"
#include "node/clients/client_jobs.h"
#include "node/clients/client_session.h"
#include "node/clients/memory_budget.h"
#include "node/clients/pusher.h"
#include "node/clients/write_queue.h"
#include "node/fleet/fleet_member.h"
#include "node/node.h"
#include "node/settings/options.h"
#include "node/settings/versions.h"
#include "node/store/page_store.h"
#include "node/store/scrubber.h"
#include "transport/fabric.h"

namespace farpage {

// One run of a memory node: one incarnation, with its pool, its clients and, if there are others,
// its part in the fleet. Everything runs on the runtime's thread, so that one thread alone writes
// index, slots and live words.
class MemoryNode final : public NodeService {
 public:
  struct Run {
    uint64_t incarnation = 0;
    std::unique_ptr<PageStore> store;
    std::shared_ptr<Versions> versions;
    std::shared_ptr<MemoryBudget> budget;  // of its clients
  };
  // `budget`: whose runs share it; nothing of a former one is left once its clients have nothing.
  static Result<Run> make_run(const NodeOptions& options, Runtime& runtime, Fabric& fabric,
                              std::shared_ptr<Versions> versions,
                              std::shared_ptr<MemoryBudget> budget, PoolHandoff* keeper,
                              std::string_view whose);
  // A node that serves alone, and has its epoch, serves the pages that the previous run left.
  static void adopt_former(const Run& run);

  // A node that serves alone.
  MemoryNode(const NodeOptions& options, Runtime& runtime, Fabric& fabric, Run run);
  // A member of a fleet. `left_out` runs once this run is over.
  static Result<std::unique_ptr<MemoryNode>> create(const NodeOptions& options, Runtime& runtime,
                                                    Fabric& fabric, Run run, const Fleet& fleet,
                                                    NodeId self, std::function<void()> left_out);

  // This run is over: answers what waits, and ends what its clients have of it beside this thread.
  // `ended` runs once they have nothing any more; until then nothing of this is called.
  void withdraw(std::function<void()> ended);

  Result<ClientId> connected() override;
  void handle(ClientId client, Request request, std::function<void(Reply)> done) override;
  void disconnected(ClientId client) override;
  StatusReply status() const override;

 private:
  using Answer = ClientSession::Answer;
  void hello(ClientId client, ClientSession& session, const HelloRequest& request, Answer done);
  void open_lane(ClientId client, ClientSession& session, const OpenLaneRequest& request,
                 Answer done);
  Reply take_source(ClientSession& session, SourceRequest request);
  template <typename Made>
  void make(ClientId client, ClientSession& session, std::function<Result<Made>(Fabric&)> made,
            std::function<Reply(ClientSession&, Made)> reply, Answer done);
  std::optional<Refusal> check(const HelloRequest& request) const;
  void look_back(const HelloRequest& request);
  HelloReply greet(ClientId client, const HelloRequest& request);
  void hear_facts(ClientSession& session, const std::string& facts);
  FlushReply flush(const FlushRequest& request);
  Reply answer(ClientSession& session, const RenewRequest& request);
  uint64_t epoch() const;

  NodeOptions options_;
  Runtime& runtime_;
  Fabric& fabric_;
  Run run_;
  const std::shared_ptr<MemoryBudget> own_bytes_;  // of all clients
  ClientJobs jobs_;                                // after the store whose pages its clients reach
  Pusher pusher_;                                  // after the store whose pages it writes
  uint64_t started_ns_;
  ClientTotals totals_;
  Clients clients_;
  ClientId last_client_ = 0;
  std::unique_ptr<FleetMember> member_;  // null: this node serves alone
  std::unique_ptr<WriteQueue> writes_;
  std::unique_ptr<Scrubber> scrubber_;  // null: there is none
  uint64_t renewals_ = 0;
  uint64_t newest_known_ = 0;  // epoch that a client knew this node in, and that it has not reached
  WarningLimiter gone_back_{30 * kSecond};
};

}  // namespace farpage
