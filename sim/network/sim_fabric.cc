#include "sim/network/sim_fabric.h"

#include <utility>

#include "sim/network/network.h"
#include "sim/network/sim_initiator.h"
#include "sim/network/sim_region.h"
#include "sim/network/sim_target.h"
#include "sim/network/world.h"

namespace farpage::sim {
namespace {

class HostClock final : public Clock {
 public:
  HostClock(const World& world, const int64_t& ahead_ns) : world_(world), ahead_ns_(ahead_ns) {}
  uint64_t now_ns() const override { return world_.now_ns() + static_cast<uint64_t>(ahead_ns_); }

 private:
  const World& world_;
  const int64_t& ahead_ns_;
};

class HostRuntime final : public Runtime {
 public:
  HostRuntime(World& world, Host& host)
      : world_(world),
        host_(host),
        clock_(world, host.clock_ahead_ns),
        wall_clock_(world, host.wall_ahead_ns) {}

  const Clock& clock() const override { return clock_; }
  const Clock& wall_clock() const override { return wall_clock_; }

  void after(uint64_t delay_ns, std::function<void()> callback) override {
    after_hold(world_, host_, delay_ns, std::move(callback));
  }

  static void after_hold(World& world, Host& host, uint64_t delay_ns,
                         std::function<void()> callback) {
    world.after(delay_ns, [&world, &host, callback = std::move(callback), held_ns = host.held_ns] {
      if (!host.alive) return;
      // Its timers stood still with it.
      if (host.held_ns != held_ns) {
        return after_hold(world, host, host.held_ns - held_ns, callback);
      }
      if (host.paused) {
        host.deferred.push_back(callback);
      } else {
        callback();
      }
    });
  }

  void offload(JobClass, std::function<void()> work) override {
    const SimOptions& options = host_.options;
    after(world_.random_between(options.offload_min_ns, options.offload_max_ns), std::move(work));
  }

  bool wait_until(uint64_t deadline_ns, const std::function<bool()>& ready) override {
    return sim::wait_until(world_, host_, deadline_ns, ready);
  }

  void wake() override {}

 private:
  World& world_;
  Host& host_;
  HostClock clock_;
  HostClock wall_clock_;
};

}  // namespace

SimFabric::SimFabric(World& world, const SimOptions& options)
    : network_(world.network()),
      host_(network_->add_host(options)),
      runtime_(std::make_unique<HostRuntime>(world, host_)) {
  set_options(options);
}

const Capabilities& SimFabric::capabilities() const {
  static constexpr Capabilities kCapabilities{.backend = "sim",
                                              .path = "simulated, in virtual time",
                                              .one_sided = true,
                                              .protects_regions = true,
                                              .checksums_landing = false,
                                              .pushes = true,
                                              .max_in_flight = SimInitiator::kMaxInFlight};
  return kCapabilities;
}

Result<Region> SimFabric::allocate_readable(uint64_t bytes) {
  return allocate_region(network_, host_, bytes, Access::kRemoteRead, 0);
}

// The memory itself, so that a run that was killed can still be read while the next one writes it.
Result<Region> SimFabric::allocate_lasting(uint64_t bytes, UniqueFd& file) {
  auto memory = take_lasting_memory(bytes, file);
  if (!memory) return tl::unexpected(memory.error());
  return lasting_region(network_, host_, std::move(*memory), bytes);
}

Result<Region> SimFabric::register_local(const MemoryRange& range) {
  return register_region(network_, host_, range);
}

Result<RegionExport> SimFabric::export_region(const Region& region) {
  if (region.access() == Access::kLocal || region.backing() == nullptr) {
    return fail(Code::kInvalid, "no peer may reach this region");
  }
  RegionExport exported;
  exported.bytes = region.bytes();
  exported.access = region.access();
  exported.opaque = opaque_key(region.slice(0, 0).local_key);
  return exported;
}

Result<OfferedTarget> SimFabric::offer_channel(ChannelPurpose purpose) {
  auto target = std::make_unique<SimTarget>(network_, host_);
  OfferedTarget offered;
  offered.offer.purpose = purpose;
  offered.offer.opaque = network_->add_offer(target->id(), purpose);
  offered.target = std::move(target);
  return offered;
}

Result<std::unique_ptr<Initiator>> SimFabric::connect(ChannelOffer offer, uint64_t) {
  const Result<SimTarget*> target = network_->take_offer(offer.opaque, offer.purpose);
  if (!target) return tl::make_unexpected(target.error());
  if (!network_->reaches(host_, (*target)->host())) {
    return fail(Code::kTimeout, "the peer does not answer");
  }
  return std::make_unique<SimInitiator>(network_, host_, offer.purpose, **target);
}

void SimFabric::set_options(const SimOptions& options) {
  FARPAGE_CHECK(options.delay_min_ns <= options.delay_max_ns);
  FARPAGE_CHECK(options.offload_min_ns <= options.offload_max_ns);
  host_.options = options;
}

void SimFabric::die() {
  host_.alive = false;
  forget_deferred();
}

// They never run, and may own what owns the network, which owns them.
void SimFabric::forget_deferred() {
  const auto never = std::exchange(host_.deferred, {});
}

void SimFabric::part_from(const SimFabric& other) {
  network_->part(host_, other.host_);
}

void SimFabric::heal_to(const SimFabric& other) {
  network_->heal(host_, other.host_);
}

void SimFabric::jump_clock(uint64_t ahead_ns) {
  host_.clock_ahead_ns += static_cast<int64_t>(ahead_ns);
  host_.wall_ahead_ns += static_cast<int64_t>(ahead_ns);
}

void SimFabric::set_wall_clock(int64_t ahead_ns) {
  host_.wall_ahead_ns += ahead_ns;
}

void SimFabric::hold(uint64_t duration_ns) {
  pause();
  host_.held_ns += duration_ns;
  network_->world().after(duration_ns, [this, duration_ns] {
    host_.clock_ahead_ns -= static_cast<int64_t>(duration_ns);
    resume();
  });
}

void SimFabric::pause() {
  host_.paused = true;
}

void SimFabric::resume() {
  host_.paused = false;
  for (std::function<void()>& callback : std::exchange(host_.deferred, {})) {
    runtime_->after(0, std::move(callback));
  }
}

}  // namespace farpage::sim
