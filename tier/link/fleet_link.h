#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "pagetable/placement.h"
#include "tier/link/fleet.h"
#include "tier/link/node_session.h"
#include "tier/link/published.h"

namespace farpage {

class EpochWatch;

// One epoch, as a client reads under it. Everything but the lease is fixed (protocol rule 12).
struct EpochLease {
  explicit EpochLease(Epoch of);

  Epoch epoch;  // one member without a name where a node serves alone
  EpochTag tag;
  Placement placement;
  std::vector<std::shared_ptr<NodeSession>> links;  // by member
  std::atomic<uint64_t> valid_until_ns{kNever};
  ClockGap gap;  // when the lease was asked for; on the runtime only

  bool valid(uint64_t now_ns) const {
    return now_ns < valid_until_ns.load(std::memory_order_acquire);
  }
  // Of the versions that any of its nodes has told of so far.
  uint64_t newest_epoch() const {
    uint64_t newest = 0;
    for (const auto& link : links) newest = std::max(newest, link->newest_epoch());
    return newest;
  }
  NodeSession& primary_of(const PageKey& key) const {
    return *links[placement.replicas(key).primary()];
  }
};

// A client's connection to its nodes: a link to each member, which is unused until somebody needs
// the member, and the epoch. A list never ends. With a register, a view of the epoch lasts
// `view_lease` from the sending of a read of the register. The nodes read it. They tell of their
// views with the answers to renewals, of a new epoch as soon as they have entered it, and of its
// members when they are asked. The client reads the register itself for its first epoch, and where
// no node has told of a view for most of a lease. The link of a member that has left ends with the
// last view that named it; a member that comes back later has a new one. Thread-safe.
class FleetLink : public std::enable_shared_from_this<FleetLink> {
 public:
  // `fleet` and what it names outlive it; without one, `dialer` leads to a node that serves alone.
  FleetLink(const ClientOptions& options, Runtime& runtime, Fabric& fabric, Fleet fleet);
  FleetLink(const ClientOptions& options, Runtime& runtime, Fabric& fabric, ControlDialer& dialer);

  // Waits until one of the nodes has answered, and dials no more of them than it takes. Those that
  // have not answered are dialled on.
  Result<void> connect();
  // Some link is being dialled for the first time, or after its rest.
  bool any_coming() const;
  // Until one of the nodes can be reached: dials others while none of those that it uses can be.
  void reach_one(uint64_t deadline_ns);
  // No link is in use: the client has asked nothing of any node for a while. It hears of no epochs
  // then. Any thread.
  bool sleeps() const;
  // The view of the epoch has ended: whether the next one may still come, because the client slept
  // until a moment ago. Who asks starts a link then, and asks again later. Any thread; waits for no
  // other.
  bool wakes() const;
  // The view of the epoch. A client that slept hears of it first, for which this waits, until then.
  // Not on the runtime's thread.
  std::shared_ptr<EpochLease> wake_up(uint64_t deadline_ns);
  // There is a view of some node and one of the epoch; or there were when the client fell asleep.
  bool reachable() const;
  // Waits for connects that are under way: the fabric may go then. Not on the runtime's thread.
  void stop();

  // Its number changes with every epoch. Lanes take it without waiting.
  const Published<EpochLease>& published() const { return view_; }
  std::shared_ptr<EpochLease> view() const { return view_.get(); }
  bool alone() const { return alone_ != nullptr; }
  bool has_register() const { return fleet_.epochs != nullptr; }
  uint64_t view_ns() const { return fleet_.view_ns; }

  // This node has refused a message: it is in another epoch. Asks it which. On the runtime.
  void look_again(NodeSession& node) { ask_node(node); }

  // Memory that nodes of this host may read in place; 0: the fabric cannot share it, and nothing
  // ends.
  uint32_t add_source(const MemoryRange& memory);
  void remove_source(uint32_t source);
  // Tells the nodes of memory that was put from again and again. After a put; takes some 100 µs for
  // each, once.
  void share_sources();
  ClientSources& sources() { return *sources_; }

  const ClientOptions& options() const { return options_; }
  Runtime& runtime() { return runtime_; }
  Fabric& fabric() { return fabric_; }
  const std::shared_ptr<ClientCounters>& counters() const { return counters_; }
  // Of the members, and of those that have left but are named by a view that may still be valid.
  std::vector<std::shared_ptr<NodeSession>> links() const;

 private:
  struct KnownLink {
    std::shared_ptr<NodeSession> link;
    uint64_t ends_ns = kNever;  // of a member that has left; by then no view names it
  };

  Result<void> check() const;
  bool dial_more(const EpochLease& lease, size_t count);
  void watch_links();
  void enter(const Epoch& epoch, uint64_t valid_until_ns, const ClockGap& gap = {});
  void leave_after(uint64_t view_ends_ns);
  void let_go();
  std::shared_ptr<NodeSession> make_link(const Member& member, uint64_t page_bytes);
  void watch_register();
  bool runs_out() const;
  bool end_if_held();
  void read_register_once();
  void read_register();
  void ask_node(NodeSession& node);
  void ask(ControlLink& link);
  void told(const ToldView& view);
  void watch(const ToldView& view);
  void ask_if_later(const EpochTag& epoch, ControlLink& link);
  void answered(uint64_t sent_ns, const ClockGap& gap, const Result<Reply>& reply);
  uint64_t told_until_ns(uint64_t sent_ns, uint64_t age_ns) const;
  void extend(EpochLease& lease, uint64_t until_ns, const ClockGap& gap);
  void learned(uint64_t sent_ns, const ClockGap& gap, const Result<RegisteredEpoch>& read);
  bool are_unused() const;  // the links; under the lock
  bool any_node() const;
  bool all_refused() const;
  Error why_none() const;

  const ClientOptions options_;
  Runtime& runtime_;
  Fabric& fabric_;
  const std::shared_ptr<FabricGate> gate_;  // of all links; stop() alone waits for what is inside
  const Fleet fleet_;
  ControlDialer* const alone_ = nullptr;  // not a fleet
  const std::shared_ptr<ClientCounters> counters_ = std::make_shared<ClientCounters>();
  const std::shared_ptr<ClientSources> sources_ = std::make_shared<ClientSources>();

  Published<EpochLease> view_;  // replaced under the lock
  mutable std::mutex mutex_;    // of what follows; never taken by a lane
  std::map<NodeId, KnownLink> links_;
  std::optional<Error> register_error_;
  uint64_t learned_ns_ = 0;  // the epoch
  uint64_t reading_ = 0;     // reads that have not been answered
  bool told_of_going_back_ = false;
  bool stopped_ = false;

  uint64_t ask_again_ns_ = 0;  // a node, which epoch it is; this and what follows: on the runtime
  std::shared_ptr<EpochWatch> epoch_watch_;  // null: no node has told of its view yet

  std::atomic<uint64_t> slept_ns_{0};  // when the client was last seen asleep; 0: never
};

}  // namespace farpage
