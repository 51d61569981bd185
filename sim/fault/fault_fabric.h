#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "sim/fault/fault_plan.h"
#include "sim/fault/shared_plan.h"
#include "transport/forwarding_fabric.h"
#include "transport/lasting_memory.h"

namespace farpage::fault {

struct FlippedByte {
  const std::byte* at = nullptr;
  uint64_t offset = 0;               // in its region
  std::weak_ptr<const void> memory;  // expired: the region is no more
};

struct ReadableMemory;

// Another fabric, with faults: whatever it does and whatever it brings passes through a seeded plan
// below the completion, so that all above is the product's own code. With an empty plan it is the
// other fabric. For tests and campaigns, not for production.
//
// `inner` and `clock` outlive it and its channels. Thread-safe as every fabric.
class FaultFabric final : public ForwardingFabric, public LastingMemory {
 public:
  FaultFabric(Fabric& inner, const Clock& clock, uint64_t seed);
  ~FaultFabric() override;

  // Before the first channel.
  void watch(FaultWatcher watcher);

  // For what is posted from now on.
  void set_plan(const FaultPlan& plan);
  // Of the connected peers no completion comes any more; then all go on.
  void stop_peers();
  void resume_peers();
  // Flips a bit anywhere in memory that allocate_readable() has given. Nothing: there is none.
  std::optional<FlippedByte> flip_at_rest();

  const FaultCounts& injected() const;

  Result<Region> allocate_readable(uint64_t bytes) override;
  // If the other fabric has any.
  Result<Region> allocate_lasting(uint64_t bytes, UniqueFd& file) override;
  Result<RegionExport> export_region(const Region& region) override;
  Result<std::unique_ptr<Initiator>> connect(ChannelOffer offer, uint64_t deadline_ns) override;

 private:
  Result<Region> watched(Result<Region> region);

  const std::shared_ptr<SharedPlan> shared_;

  std::mutex mutex_;  // of what follows
  Random random_;
  std::vector<std::weak_ptr<ReadableMemory>> readable_;
};

}  // namespace farpage::fault
