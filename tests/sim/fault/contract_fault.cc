#include "sim/fault/fault_fabric.h"
#include "sim/fault/shaped_fabric.h"
#include "sim/network/sim_fabric.h"
#include "sim/network/world.h"
#include "tests/support/data_port.h"
#include "tests/transport/contract/contract.h"
#include "transport/shm/shm_fabric.h"

// Without faults it is the fabric that it wraps, and so is one whose link is not shaped.
namespace farpage::contract {
namespace {

template <typename Wrapper>
Wrapper wrap(Fabric& inner, const Clock& clock) {
  if constexpr (std::is_constructible_v<Wrapper, Fabric&, const Clock&, uint64_t>) {
    return Wrapper(inner, clock, 1);
  } else {
    return Wrapper(inner, clock);
  }
}

template <typename Wrapper>
class OverSim : public Harness {
 public:
  Fabric& passive() override { return passive_; }
  Fabric& active() override { return active_; }
  const Clock& clock() const override { return world_.clock(); }
  void settle() override { world_.run_until(world_.now_ns() + 100 * kSecond); }

 private:
  sim::World world_{1};
  sim::SimFabric passive_{world_, {.delay_max_ns = 50'000, .tear = 0.5}};
  sim::SimFabric inner_{world_, {.delay_max_ns = 50'000, .tear = 0.5}};
  Wrapper active_ = wrap<Wrapper>(inner_, world_.clock());
};

template <typename Wrapper>
class OverShm : public Harness {
 public:
  Fabric& passive() override { return *passive_; }
  Fabric& active() override { return active_; }
  const Clock& clock() const override { return boottime_clock(); }
  void settle() override {}

 private:
  std::unique_ptr<Fabric> passive_ = shm::make_shm_fabric();
  std::unique_ptr<Fabric> inner_ = shm::make_shm_fabric();
  Wrapper active_ = wrap<Wrapper>(*inner_, boottime_clock());
};

void slow_down(fault::FaultFabric& fabric) {
  fault::FaultPlan plan;
  plan.delay_ns = kMillisecond;
  fabric.set_plan(plan);
}
void slow_down(fault::ShapedFabric& fabric) {
  fabric.shape({.latency_ns = kMillisecond});
}

// The wrapped initiator has a descriptor, which does not tell of everything that has to be waited
// for.
template <typename Wrapper>
class SlowOverTcp : public Harness {
 public:
  SlowOverTcp() { slow_down(active_); }
  Fabric& passive() override { return *passive_; }
  Fabric& active() override { return active_; }
  const Clock& clock() const override { return boottime_clock(); }
  Peer peer() const override { return {format_address(listener_->address()), "127.0.0.1"}; }
  void settle() override {
    for (int round = 0; round < 3; ++round) make_round_trip();
  }

 private:
  std::unique_ptr<tcp::TcpFabric> passive_ = tcp::make_tcp_fabric({.io_threads = 1}).value();
  std::unique_ptr<tcp::TcpFabric> inner_ = tcp::make_tcp_fabric({}).value();
  std::unique_ptr<Listener> listener_ = tcp::serve_data(*passive_);
  Wrapper active_ = wrap<Wrapper>(*inner_, boottime_clock());
};

template <template <typename> typename Over, typename Wrapper>
Backend backend(const char* name) {
  return {name, [] { return std::make_unique<Over<Wrapper>>(); }};
}

using fault::FaultFabric;
using fault::ShapedFabric;
const Backend kOverShm = backend<OverShm, FaultFabric>("over_shm");
const Backend kShapedOverShm = backend<OverShm, ShapedFabric>("shaped_over_shm");
const auto kAny =
    testing::Values(backend<OverSim, FaultFabric>("over_sim"), kOverShm,
                    backend<OverSim, ShapedFabric>("shaped_over_sim"), kShapedOverShm);

}  // namespace

INSTANTIATE_TEST_SUITE_P(Fault, FabricContract, kAny, backend_name);
INSTANTIATE_TEST_SUITE_P(Fault, ClosingContract, kAny, backend_name);
INSTANTIATE_TEST_SUITE_P(Fault, WaitingContract,
                         testing::Values(backend<SlowOverTcp, FaultFabric>("slow_over_tcp"),
                                         backend<SlowOverTcp, ShapedFabric>("shaped_over_tcp")),
                         backend_name);
INSTANTIATE_TEST_SUITE_P(Fault, ProtectionContract, kAny, backend_name);
INSTANTIATE_TEST_SUITE_P(Fault, PushContract, kAny, backend_name);
INSTANTIATE_TEST_SUITE_P(Fault, ChecksumContract, testing::Values(kOverShm, kShapedOverShm),
                         backend_name);

}  // namespace farpage::contract
