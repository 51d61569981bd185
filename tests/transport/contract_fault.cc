#include "tests/transport/contract.h"
#include "transport/fault/fault_fabric.h"
#include "transport/shm/shm_fabric.h"
#include "transport/sim/sim_fabric.h"
#include "transport/sim/world.h"

// Without faults it is the fabric that it wraps.
namespace farpage::contract {
namespace {

class FaultOverSim : public Harness {
 public:
  Fabric& passive() override { return passive_; }
  Fabric& active() override { return active_; }
  const Clock& clock() const override { return world_.clock(); }
  void settle() override { world_.run_until(world_.now_ns() + 100 * kSecond); }

 private:
  sim::World world_{1};
  sim::SimFabric passive_{world_, {.delay_max_ns = 50'000, .tear = 0.5}};
  sim::SimFabric inner_{world_, {.delay_max_ns = 50'000, .tear = 0.5}};
  fault::FaultFabric active_{inner_, world_.clock(), 1};
};

class FaultOverShm : public Harness {
 public:
  Fabric& passive() override { return *passive_; }
  Fabric& active() override { return active_; }
  const Clock& clock() const override { return boottime_clock(); }
  void settle() override {}

 private:
  std::unique_ptr<Fabric> passive_ = shm::make_shm_fabric();
  std::unique_ptr<Fabric> inner_ = shm::make_shm_fabric();
  fault::FaultFabric active_{*inner_, boottime_clock(), 1};
};

const Backend kOverSim{"over_sim", [] { return std::make_unique<FaultOverSim>(); }};
const Backend kOverShm{"over_shm", [] { return std::make_unique<FaultOverShm>(); }};
const auto kEither = testing::Values(kOverSim, kOverShm);

}  // namespace

INSTANTIATE_TEST_SUITE_P(Fault, FabricContract, kEither, backend_name);
INSTANTIATE_TEST_SUITE_P(Fault, ClosingContract, kEither, backend_name);
INSTANTIATE_TEST_SUITE_P(Fault, ProtectionContract, kEither, backend_name);
INSTANTIATE_TEST_SUITE_P(Fault, PushContract, kEither, backend_name);
INSTANTIATE_TEST_SUITE_P(Fault, ChecksumContract, testing::Values(kOverShm), backend_name);

}  // namespace farpage::contract
