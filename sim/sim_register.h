#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/runtime.h"
#include "pagetable/epoch_register.h"
#include "sim/sim_wire.h"

namespace farpage {

struct SimRegisterOptions {
  double loss = 0;                           // of a request, and of an answer
  uint64_t timeout_ns = 100 * kMillisecond;  // after which a call without an answer ends
  uint64_t detect_ns = 200 * kMillisecond;   // a member that was not heard of for so long is left
                                             // out; 0: none ever is
};

// The register of a simulated fleet: one copy on a host of its own, which never fails, so that what
// happens there happens in one order (linearizable). Requests and answers take seeded delays, are
// lost, and do not pass between parted hosts.
//
// It begins with `first`, whose members have no incarnation yet: a node that starts takes its place
// by a replace of its own.
class SimRegister {
 public:
  // `wire` outlives it.
  SimRegister(SimWire& wire, size_t host, Epoch first, const SimRegisterOptions& options);

  // One host's way to it. `runtime` and the register outlive it; callbacks that wait when it goes
  // run all the same.
  std::unique_ptr<EpochRegister> access(size_t host, Runtime& runtime);

  // As etcd's leases do it: the process keeps telling that it lives, as long as `lives` does, and
  // when nothing was heard for detect_ns a new epoch begins without the node.
  void hear_from(NodeId node, size_t host, Runtime& runtime, const std::weak_ptr<bool>& lives);

  void set_loss(double loss) { options_.loss = loss; }
  // Whether what this host reads is lost. That it lives is still heard, as etcd renews a lease
  // where a linearizable read does not come through.
  void set_unread(size_t host, bool unread);
  // When the newest read was sent that this host has an answer to; 0: none has been. A node's view
  // of the epoch lasts `view_lease` from then.
  uint64_t last_read_ns(size_t host) const;
  uint64_t reads(size_t host) const;  // that it has sent
  // When the newest read was sent, by whatever host, whose answer was this epoch; 0: none. A view
  // of it, a client's own or one that a node has told, lasts `view_lease` from then at most.
  uint64_t last_read_of_epoch_ns(uint64_t epoch) const;
  const RegisteredEpoch& current() const { return current_; }
  const std::vector<Epoch>& history() const { return history_; }  // all that there were, in order
  uint64_t begun_ns(size_t epoch) const { return begun_ns_[epoch]; }  // of the history
  uint64_t left_out() const { return left_out_; }                     // members, so far

 private:
  friend class SimRegisterAccess;

  void answered(size_t host, uint64_t epoch, uint64_t sent_ns);
  void begin(Epoch next);
  Result<void> replace(uint64_t number, Epoch next);
  Result<void> confirm(NodeId node, uint64_t number);
  bool lost() { return wire_.world.chance(options_.loss); }
  void watch();

  SimWire& wire_;
  const size_t host_;
  const uint64_t replicas_;  // as many as the first epoch's, whenever there are members enough
  SimRegisterOptions options_;
  RegisteredEpoch current_;
  std::vector<Epoch> history_;
  std::vector<uint64_t> begun_ns_;
  std::unordered_map<NodeId, uint64_t> heard_ns_;
  std::unordered_map<size_t, uint64_t> reads_;            // by host
  std::unordered_map<size_t, uint64_t> read_ns_;          // by host
  std::unordered_map<uint64_t, uint64_t> epoch_read_ns_;  // by epoch
  std::unordered_set<size_t> unread_;                     // hosts
  uint64_t left_out_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace farpage
