#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <span>
#include <unordered_set>
#include <vector>

#include "base/runtime.h"
#include "base/turn_timer.h"
#include "control/messages.h"
#include "node/fleet/member_link.h"
#include "node/fleet/node_epoch.h"
#include "node/store/page_store.h"

namespace farpage {

enum class Admission : uint8_t {
  kBegins,
  kAfterAnother,  // an earlier one of this key is still being replicated
  kReachesOut,    // a replica is not reached now, and was within the last lease
  kNoReplica,     // none was heard of one for a lease: it is not waited for
  kElsewhere,     // this node is not the key's primary
};

// A primary's side of its keys' replicas: sends what was put and removed to all others of the set,
// and says when all have applied it (protocol rule 6). On the runtime's thread.
class ReplicaSender {
 public:
  // A page's place in the batch, and kOk if all others have it. kTimeout, kUnavailable,
  // kOtherEpoch, …: some may have it and some not.
  using Ended = std::function<void(size_t page, Code code)>;

  // `peer`: null if it is unknown. `told` runs when a member is in another epoch.
  ReplicaSender(Runtime& runtime, PageStore& store, const NodeEpoch& epoch,
                std::function<MemberLink*(NodeId)> peer, std::function<void()> told);

  // Whether a put of this key may begin.
  Admission admits(const PageKey& key) const;

  // Which member of its set is not reached, and why, in a sentence; empty: all are.
  std::string missing(const PageKey& key) const;
  // Of members that were reached, and whose answer was late or lost.
  std::string unanswered(const PageKey& key) const;

  // A page of a key that admits() has let in, as it lies here now, which is replicated next. Until
  // it has ended it is not evicted, and no other of its key is let in.
  void hold(const ReplicaPage& page);
  // Pages that are held. `ended` runs once for each page, later: by the deadline, or in the turns
  // that follow it. It may abort.
  void replicate(std::vector<ReplicaPage> pages, uint64_t deadline_ns, Ended ended);
  // What has not ended ends with `code`, in turns, whatever the replicas answer from now on. What
  // was to end already keeps its code.
  void abort(Code code);
  // The same, at once: for a node that serves nobody any more.
  void abort_at_once(Code code);

  uint64_t replicated() const { return replicated_; }

 private:
  struct Batch;
  using Batches = std::list<std::shared_ptr<Batch>>;
  struct Batch {
    Batches::iterator place;
    std::vector<ReplicaPage> pages;
    std::vector<size_t> waiting;  // answers, by page
    std::vector<Code> codes;
    std::vector<bool> has_ended;
    size_t left = 0;
    uint64_t deadline_ns = 0;
    Code ends_with = Code::kOk;  // else: it is to end, in this or a later turn
    Ended ended;
  };
  struct FailedPage {
    size_t page;
    Code code;
  };
  // Pages of a batch that end, or that a replica has not applied: thousands at once, where an epoch
  // or a silent member is the cause.
  struct Failure {
    std::shared_ptr<Batch> batch;
    std::vector<FailedPage> pages;
    size_t next = 0;
  };

  void send(const std::shared_ptr<Batch>& batch, NodeId to, std::vector<size_t> pages);
  void answered(const std::shared_ptr<Batch>& batch, std::span<const size_t> pages,
                const Result<Reply>& reply);
  void refused(NodeId by, uint64_t link_number, Code why);
  void take(Batch& batch, size_t page, Code code);
  void end(Batch& batch, size_t page, Code code);
  void end_later(const std::shared_ptr<Batch>& batch, Code code);
  void fail(const std::shared_ptr<Batch>& batch, std::vector<FailedPage> pages);
  void end_overdue();
  void begin_turn();
  void fail_some();
  void fail_next();

  Runtime& runtime_;
  PageStore& store_;
  const NodeEpoch& epoch_;
  const std::function<MemberLink*(NodeId)> peer_;
  const std::function<void()> told_;
  std::unordered_set<PageKey> under_way_;
  Batches batches_;  // that have not ended, in their order
  uint64_t replicated_ = 0;
  // One for all batches, which are thousands a second and end long before their deadlines.
  TurnTimer overdue_;
  std::deque<Failure> failures_;
  size_t turn_pages_;  // that may still fail in this turn
  TurnTimer next_turn_;
  std::shared_ptr<bool> alive_ =
      std::make_shared<bool>(true);  // outlived by callbacks that look at it
};

}  // namespace farpage
