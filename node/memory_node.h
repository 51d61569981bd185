#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>

#include "base/runtime.h"
#include "control/link.h"
#include "node/client_session.h"
#include "node/epoch_file.h"
#include "node/node.h"
#include "node/options.h"
#include "node/page_store.h"
#include "node/pusher.h"
#include "transport/fabric.h"

namespace farpage {

// One memory node without replicas. Everything runs on the runtime's thread, so that one thread
// alone writes index, slots and live words.
class MemoryNode final : public NodeService {
 public:
  MemoryNode(const NodeOptions& options, Runtime& runtime, Fabric& fabric, EpochFile epochs,
             uint64_t epoch, uint64_t incarnation, std::unique_ptr<PageStore> store);

  Result<ClientId> connected() override;
  void handle(ClientId client, Request request, std::function<void(Reply)> done) override;
  void disconnected(ClientId client) override;
  StatusReply status() const override;

 private:
  struct PendingCommit {
    ClientId client;
    CommitRequest request;
    uint64_t deadline_ns;
    std::vector<CommitResult> results;
    std::function<void(Reply)> done;
  };

  Reply answer(ClientSession& session, const HelloRequest& request);
  Reply answer(ClientSession& session, const OpenLaneRequest& request);
  Reply answer(const RemoveRequest& request);
  Reply answer(ClientSession& session, const RenewRequest& request);
  VerdictCounts verdicts() const;
  void remove_when_open(ClientId client, RemoveRequest request, std::function<void(Reply)> done);
  void enqueue(ClientId client, CommitRequest request, std::function<void(Reply)> done);

  // Puts what can be put now; arranges to be called again for the rest.
  void pump();
  bool advance(PendingCommit& commit, uint64_t now_ns, uint64_t& budget_bytes, uint64_t& wake_ns);
  CommitResult put_page(ClientSession& session, const CommitPage& page);
  Result<Version> next_version();
  void wake_at(uint64_t time_ns);

  NodeOptions options_;
  Runtime& runtime_;
  Fabric& fabric_;
  EpochFile epochs_;
  uint64_t epoch_;
  uint64_t version_counter_ = 0;
  uint64_t incarnation_;
  std::unique_ptr<PageStore> store_;
  Pusher pusher_;  // after the store whose pages it writes
  uint64_t started_ns_;
  uint64_t puts_open_ns_;  // a client may still read what the run before this one held (rule 9)
  std::unordered_map<ClientId, ClientSession> clients_;
  ClientId last_client_ = 0;
  std::deque<PendingCommit> commits_;
  uint64_t wake_ns_ = kNever;
  bool touches_collected_ = false;  // in this turn of pump()
  uint64_t puts_ = 0;
  uint64_t put_bytes_ = 0;
  uint64_t puts_refused_ = 0;
  uint64_t removes_ = 0;
  uint64_t renewals_ = 0;
  VerdictCounts departed_;  // of the clients that have gone
  std::shared_ptr<bool> alive_ =
      std::make_shared<bool>(true);  // outlived by timers that look at it
};

}  // namespace farpage
