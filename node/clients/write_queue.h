#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/runtime.h"
#include "base/turn_timer.h"
#include "control/link.h"
#include "node/clients/client_session.h"
#include "node/clients/memory_budget.h"
#include "node/fleet/node_epoch.h"
#include "node/fleet/replica_sender.h"
#include "node/settings/versions.h"
#include "node/store/page_store.h"

namespace farpage {

using Clients = std::map<ClientId, ClientSession>;

// Puts and removes, from their request to their answer: they wait for their bytes, for slots, for
// puts to open, and for the replicas of their keys (PUT of the protocol). The queue passes over
// what waits in turns, a client after the other. On the runtime's thread.
class WriteQueue {
 public:
  struct Counts {
    uint64_t puts = 0;
    uint64_t put_bytes = 0;
    uint64_t puts_refused = 0;
    uint64_t puts_in_place = 0;
    uint64_t puts_without_replica = 0;  // among the refused
    uint64_t removes = 0;
  };
  // `epoch` and `replica_sender` are null for a node that serves alone.
  WriteQueue(Runtime& runtime, Clients& clients, PageStore& store, Versions& versions,
             const NodeEpoch* epoch, ReplicaSender* replica_sender);

  // One commit of a client does not overtake another.
  void commit(ClientId client, CommitRequest request, std::function<void(Reply)> done);
  // Acknowledged no sooner than a put: a client with a view of the run before this one may still
  // read what the remove names (rule 9).
  void remove(ClientId client, RemoveRequest request, std::function<void(Reply)> done);
  void disconnected(ClientId client);
  // The epoch has changed: the next turns refuse what has not begun, with the epoch that it is now,
  // and of what has begun in part no further page begins. The sender ends pages that are being
  // replicated.
  void epoch_changed();
  // The same for all that waits, at once.
  void refuse_waiting();

  const Counts& counts() const { return counts_; }

 private:
  struct Write {
    ClientId client;
    std::variant<CommitRequest, RemoveRequest> request;
    uint64_t deadline_ns;
    std::function<void(Reply)> done;
    uint64_t epochs = 0;  // that had changed when it came
    size_t begun = 0;     // pages
    size_t open = 0;      // that are being replicated
    std::vector<CommitResult> results;
    uint64_t removed = 0;
    MemoryBudget::Grant grant = {};  // of what is here
    std::string why = {};            // which member was in the way of a page

    size_t pages() const;
    uint64_t bytes() const;
    const PageKey& key(size_t page) const;
    EpochTag epoch() const;
  };
  using WritePtr = std::shared_ptr<Write>;
  // A client's, in the order in which they came.
  struct Waiting {
    ClientId client;
    uint64_t joined;  // in this pass
    std::deque<WritePtr> writes;
  };
  using Place = std::list<Waiting>::iterator;
  struct Turn {
    uint64_t now_ns;
    uint64_t budget_bytes;
    uint64_t wake_ns = kNever;
  };

  struct Batch {
    std::vector<ReplicaPage> replicas;
    std::vector<size_t> pages;  // of the write, for each
  };

  uint64_t deadline_of(uint64_t patience_ns) const;
  void enqueue(WritePtr write);
  void wait_in_line(WritePtr write);
  bool pass_is_over() const { return next_ == waiting_.end() || next_->joined == pass_; }
  // Does what can be done now; arranges to be called again for the rest.
  void pump();
  void advance_all(Waiting& waiting, Turn& turn, std::vector<WritePtr>& begun);
  bool advance(const WritePtr& write, Turn& turn);
  void look_again();
  void refuse(Write& write);
  bool begin_pages(Write& write, Turn& turn, Batch& batch);
  static void give_up_rest(Write& write, Code code);
  bool wait(Write& write, Turn& turn, uint64_t until_ns, Code code);
  CommitResult begin_page(Write& write, size_t page);
  CommitResult put_page(ClientSession& session, const CommitPage& page);
  Code store_page(const ClientSession& session, const CommitPage& page, Version version);
  void collect_touches();
  CommitResult remove_page(Write& write, const PageKey& key);
  Result<Version> next_version();
  bool hold(const Write& write, size_t page, Batch& batch);
  void replicated(const WritePtr& write, size_t page, Code code);
  void judge(Write& write);
  void finish(Write& write);

  Runtime& runtime_;
  Clients& clients_;
  PageStore& store_;
  Versions& versions_;
  const NodeEpoch* epoch_;
  ReplicaSender* replica_sender_;
  std::list<Waiting> waiting_;  // in the order in which their clients began to wait
  std::unordered_map<ClientId, Place> of_client_;
  uint64_t pass_ = 0;               // over those that were in line when it began
  Place next_ = waiting_.end();     // where it goes on
  uint64_t pass_wake_ns_ = kNever;  // when something is due that the pass has seen
  bool again_ = false;              // something has changed for what the pass has seen
  uint64_t epochs_ = 0;             // that have changed
  TurnTimer timer_;                 // of pump()
  bool touches_collected_ = false;  // in this turn of pump()
  ClientId touched_last_ = 0;       // whose touches were collected last
  Counts counts_;
  std::shared_ptr<bool> alive_ =
      std::make_shared<bool>(true);  // outlived by callbacks that look at it
};

}  // namespace farpage
