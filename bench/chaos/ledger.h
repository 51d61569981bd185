#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "bench/chaos/kinds.h"
#include "bench/cluster/sim_engine.h"
#include "bench/cluster/truth.h"
#include "transport/fault/fault_fabric.h"
#include "transport/operation.h"

namespace farpage::chaos {

using KindCounts = std::array<uint64_t, kKinds>;

// What was injected into one run, and what of it was caught: docs/reliability.md says what that
// means for each kind. It follows every fault to the page that it met, and sees what became of that
// page. A fault that met nothing which anybody waited for is not caught.
class Ledger final : public EngineWitness {
 public:
  Ledger(const Clock& clock, const Truth& truth) : clock_(clock), truth_(truth) {}

  // All of the run, before anything happens.
  void add(SimEngine& engine) { engines_.push_back(&engine); }

  // What passed through a host's fabric (fault::FaultWatcher).
  void passed(const Operation& operation, std::optional<fault::FaultKind> fault);
  // A bit that flipped in a node's memory, and is not mended by itself.
  void flipped_at_rest(size_t node, const fault::FlippedByte& flipped);
  // Its memory may be gone.
  void node_ended(size_t node);
  // Something befalls a host or a link, for so long and with effects for so much longer.
  void disturbed(Disturbance kind, uint64_t for_ns);
  // Completions that the lanes have refused because they came again.
  void strays(uint64_t count);

  void put_sent(const PageKey&, uint64_t) override {}
  void put_ended(const PageKey& key, uint64_t number, uint64_t sent_ns,
                 const PutResult& result) override;
  void remove_sent(const PageKey&) override {}
  void remove_ended(const PageKey& key, uint64_t sent_ns, bool acknowledged) override;
  void page_judged(const std::byte* destination, uint64_t sent_ns,
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
    Kind kind;
    uint64_t from_ns;
    uint64_t to_ns;
    bool met;
  };

  bool awaited(const std::byte* destination) const;
  // The identity of a flip at rest that this read has brought; 0: none.
  uint64_t flip_read(const Operation& operation) const;
  bool is_wrong(const Slice& payload) const;
  // Something that began then has ended now without what was asked for.
  void gave_up(uint64_t sent_ns);

  const Clock& clock_;
  const Truth& truth_;
  std::vector<SimEngine*> engines_;
  std::unordered_map<const std::byte*, Destination> destinations_;
  std::unordered_set<uint64_t> flipped_puts_;
  std::vector<Flip> flips_;  // that nobody has caught
  uint64_t last_flip_ = 0;
  std::deque<Window> windows_;
  KindCounts injected_{};
  KindCounts caught_{};
};

}  // namespace farpage::chaos
