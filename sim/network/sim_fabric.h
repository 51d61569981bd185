#pragma once

#include <memory>

#include "base/runtime.h"
#include "sim/network/sim_options.h"
#include "transport/fabric.h"
#include "transport/lasting_memory.h"

namespace farpage::sim {

class Network;
class World;
struct Host;

// One simulated machine. It moves real bytes between memory of this process, in the world's virtual
// time: nothing moves but while the world steps (Initiator::wait, World::wait_until,
// World::run_until).
//
// The world outlives the fabric, and the fabric's channels and regions may outlive the fabric.
class SimFabric final : public Fabric, public LastingMemory {
 public:
  SimFabric(World& world, const SimOptions& options);
  ~SimFabric() override { forget_deferred(); }

  const Capabilities& capabilities() const override;
  Result<Region> allocate_readable(uint64_t bytes) override;
  Result<Region> allocate_lasting(uint64_t bytes, UniqueFd& file) override;
  Result<Region> register_local(const MemoryRange& range) override;
  Result<RegionExport> export_region(const Region& region) override;
  Result<OfferedTarget> offer_channel(ChannelPurpose purpose) override;
  Result<std::unique_ptr<Initiator>> connect(ChannelOffer offer, uint64_t deadline_ns) override;

  // The runtime of this machine's process: its callbacks wait while it is paused and are dropped
  // when it dies.
  Runtime& runtime() { return *runtime_; }

  // Takes effect for what is posted from now on.
  void set_options(const SimOptions& options);

  // The power is gone: its memory answers nothing, what it posted stops, and its peers see no
  // completion.
  void die();

  // The network between the two machines is gone, as if the other one had no power, and is back.
  // Operations that met the gap never complete.
  void part_from(const SimFabric& other);
  void heal_to(const SimFabric& other);

  // Its process stands still: no callback of runtime() runs and poll() returns nothing. Its memory
  // answers all the same.
  void pause();
  void resume();

  // runtime()'s clock is so much later at once, as after a machine has slept: its timers have not
  // run meanwhile, and no other clock has moved.
  void jump_clock(uint64_t ahead_ns);
  // runtime()'s wall clock alone is set so much ahead, or back.
  void set_wall_clock(int64_t ahead_ns);
  // A hypervisor holds the machine for so long, as in a live migration: it is paused, and its clock
  // and its timers stand still. Its wall clock is right afterwards. Not while it is held, and it
  // outlives the hold.
  void hold(uint64_t duration_ns);

 private:
  void forget_deferred();

  std::shared_ptr<Network> network_;
  Host& host_;
  std::unique_ptr<Runtime> runtime_;
};

}  // namespace farpage::sim
