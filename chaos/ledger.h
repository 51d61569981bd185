#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "chaos/kinds.h"
#include "pagetable/epoch.h"
#include "sim/fault/fault_fabric.h"
#include "sim/sim_cluster.h"
#include "sim/sim_engine.h"
#include "sim/truth.h"
#include "transport/operation.h"

namespace farpage::chaos {

using KindCounts = std::array<uint64_t, kKinds>;

// The victims of a disturbance, by their numbers in the cluster: those two, or that one twice.
struct Befallen {
  size_t host;
  size_t other;
};

// The faults injected into one run, and those that were caught: docs/reliability.md says what that
// means for each kind. It follows every fault to the page that it met, and sees what became of that
// page. A fault that met nothing that a caller waited for is not caught. An engine catches a
// disturbance when it gives up a page that the disturbance can have cost it: the engine, or a node
// that it asked, is a victim, the disturbance had its effect, and without anything wrong there was
// time enough.
class Ledger final : public EngineWitness {
 public:
  Ledger(SimCluster& cluster, const Truth& truth, uint64_t lease_ns)
      : cluster_(cluster),
        clock_(cluster.world().clock()),
        truth_(truth),
        list_(cluster.fleet_for_client(0).list),
        lease_ns_(lease_ns) {}

  // All of the run, each that of the next client, before anything happens.
  void add(SimEngine& engine) { engines_.push_back(&engine); }

  // Operations that passed through a host's fabric (fault::FaultWatcher).
  void passed(const Operation& operation, std::optional<fault::FaultKind> fault);
  // A bit that flipped in a node's memory, and is not mended by itself.
  void flipped_at_rest(size_t node, const fault::FlippedByte& flipped);
  // Its memory may be gone.
  void node_ended(size_t node);
  // For so long, and felt for a lease longer.
  void disturbed(Disturbance kind, const Befallen& whom, uint64_t for_ns);
  // Completions that the lanes have refused because they came again.
  void strays(uint64_t count);

  void put_ended(const Asked& asked, uint64_t number, const PutResult& result) override;
  void remove_ended(const Asked& asked, Code code) override;
  void page_judged(const std::byte* destination, const Asked& asked,
                   const PageVerdict& verdict) override;

  const KindCounts& injected() const { return injected_; }
  const KindCounts& caught() const { return caught_; }

 private:
  struct Met {
    Kind kind;
    uint64_t landing;  // which of the destination's it was
    uint64_t flip;     // at rest: which; it is caught once
  };
  struct Destination {
    uint64_t landings = 0;
    std::vector<Met> met;
  };
  struct Flip {
    uint64_t id;
    size_t node;
    fault::FlippedByte byte;
    std::byte value;
  };
  struct Window {
    Disturbance kind;
    Befallen whom;
    uint64_t from_ns;
    uint64_t to_ns;
    bool met;
  };

  bool awaited(const std::byte* destination) const;
  // The identity of a flip at rest that this read has brought; 0: none.
  uint64_t flip_read(const Operation& operation) const;
  bool is_wrong(const Slice& payload) const;
  // Requests that ended without success.
  struct GivenUp {
    size_t client;                  // its host
    std::vector<bool> asked_nodes;  // that were in the page's set meanwhile
    bool writes;                    // nodes ask each other, too
    bool unreachable;               // and not only late
    uint64_t sent_ns;
  };
  void gave_up(const Asked& asked, bool writes, bool unreachable);
  std::vector<bool> asked_nodes(const Asked& asked) const;
  bool can_be_why(const Window& window, const GivenUp& given_up) const;
  bool view_has_ended(size_t host) const;

  SimCluster& cluster_;
  const Clock& clock_;
  const Truth& truth_;
  const Epoch list_;
  const uint64_t lease_ns_;
  std::vector<SimEngine*> engines_;
  std::unordered_map<const std::byte*, Destination> destinations_;
  std::unordered_set<uint64_t> flipped_puts_;
  std::vector<Flip> flips_;  // that no check has caught
  uint64_t last_flip_ = 0;
  std::deque<Window> windows_;
  KindCounts injected_{};
  KindCounts caught_{};
};

}  // namespace farpage::chaos
