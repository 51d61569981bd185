#include "tests/transport/contract.h"
#include "transport/shm/shm_fabric.h"

namespace farpage::contract {
namespace {

class ShmHarness : public Harness {
 public:
  Fabric& passive() override { return *passive_; }
  Fabric& active() override { return *active_; }
  const Clock& clock() const override { return boottime_clock(); }
  void settle() override {}  // bytes move inside poll() alone

 private:
  std::unique_ptr<Fabric> passive_ = shm::make_shm_fabric();
  std::unique_ptr<Fabric> active_ = shm::make_shm_fabric();
};

const Backend kShm{"shm", [] { return std::make_unique<ShmHarness>(); }};

}  // namespace

INSTANTIATE_TEST_SUITE_P(Shm, FabricContract, testing::Values(kShm), backend_name);
INSTANTIATE_TEST_SUITE_P(Shm, ClosingContract, testing::Values(kShm), backend_name);
INSTANTIATE_TEST_SUITE_P(Shm, ProtectionContract, testing::Values(kShm), backend_name);
INSTANTIATE_TEST_SUITE_P(Shm, PushContract, testing::Values(kShm), backend_name);
INSTANTIATE_TEST_SUITE_P(Shm, ChecksumContract, testing::Values(kShm), backend_name);

}  // namespace farpage::contract
