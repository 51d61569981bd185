#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "control/messages.h"
#include "node/clients/client_budget.h"
#include "node/clients/client_memory.h"
#include "node/store/page_store.h"
#include "transport/transfer_counters.h"

namespace farpage {

// Sums over a node's clients, which no question has to walk for.
struct ClientTotals {
  uint64_t greeted = 0;
  uint64_t sources = 0;
  VerdictCounts verdicts;  // also of clients that have gone
};

// A node's state for one client: its own staging, which is never handed on (protocol rule 17) and
// ends in its touch log, and its lanes. All of it goes when the client does, and may block then.
// Movable, to be destroyed elsewhere.
class ClientSession {
 public:
  using Answer = std::function<void(Reply)>;

  // `totals`: of the node, which outlive the session's place among its clients.
  ClientSession(ClientBudget budget, ClientTotals& totals)
      : budget_(std::move(budget)), totals_(&totals) {}
  // It is none of the node's clients any more.
  void leave();

  ClientBudget& budget() { return budget_; }

  // Its hello has been answered.
  bool greeted() const { return greeted_; }
  // And is being answered.
  bool greeting() const { return !greeted_ && !making_.empty(); }

  // There is nothing to end, and no reason to go elsewhere for it.
  bool holds_nothing() const {
    return staging_.target == nullptr && lanes_.empty() && sources_.empty();
  }

  // Requests of this client that wait for their answer. False: too many do.
  bool add_waiting() {
    if (waiting_ == kMostWaiting) return false;
    ++waiting_;
    return true;
  }
  void remove_waiting() { --waiting_; }

  // The answer to a request for which something is being made. It expires when it has been given,
  // or when no caller waits for it any more.
  std::weak_ptr<Answer> begin_making(Answer answer);
  void end_making(const std::shared_ptr<Answer>& answer);
  std::vector<std::shared_ptr<Answer>> end_all_making();

  // `staging`: none, of a member.
  void greet(std::optional<ClientStaging> staging);
  // The tag of the pages that it puts; 0: it named no namespace.
  void set_name_space(uint32_t tag) { name_space_ = tag; }
  uint32_t name_space() const { return name_space_; }
  // With those that are being made.
  size_t lanes() const { return lanes_.size() + making_.size(); }
  // Its number.
  uint64_t add_lane(ClientLane lane);
  // Nothing: there is none of this number.
  std::optional<ClientLane> take_lane(uint64_t number);

  size_t sources() const { return sources_.size(); }
  // `number`: of none that is there.
  void add_source(uint32_t number, ClientSource source);
  std::optional<ClientSource> take_source(uint32_t number);
  // Null: there is none of this number.
  const PeerSource* source(uint32_t number) const;

  // Whether the client's writes up to this immediate are in the staging.
  bool staged(uint32_t immediate);
  // Of a page that lies there. Empty if it is not within what puts go through.
  std::span<const std::byte> staged_payload(const CommitPage& page) const;

  // The client's word: what goes back is not believed.
  void report(const VerdictCounts& verdicts);

  // Tells the store which slots the client has read since the last call, the oldest first; no more
  // than so many, and of the others the next time. How many.
  uint64_t collect_touches(PageStore& store, uint64_t most);

 private:
  struct Lane {
    uint64_t number;
    ClientLane lane;
  };

  // A client has no more commits under way than its staging has segments, half of this.
  static constexpr uint32_t kMostWaiting = kTransferCounters;

  ClientBudget budget_;
  ClientTotals* totals_;
  uint32_t waiting_ = 0;
  bool greeted_ = false;
  uint32_t name_space_ = 0;
  VerdictCounts reported_;
  ClientStaging staging_;
  uint64_t touches_seen_ = 0;
  TransferCounters arrivals_;
  std::vector<Lane> lanes_;
  uint64_t last_lane_ = 0;
  std::unordered_map<uint32_t, ClientSource> sources_;
  std::vector<std::shared_ptr<Answer>> making_;  // of a hello, or of lanes
};

}  // namespace farpage
