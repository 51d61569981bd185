#include "tests/transport/verbs/verbs_backends.h"

namespace farpage::contract {
namespace {

auto topologies() {
  return testing::Values(one_device(), over_the_network(), two_devices());
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Verbs, FabricContract, topologies(), backend_name);
INSTANTIATE_TEST_SUITE_P(Verbs, ClosingContract, topologies(), backend_name);
INSTANTIATE_TEST_SUITE_P(Verbs, ProtectionContract, topologies(), backend_name);
INSTANTIATE_TEST_SUITE_P(Verbs, WaitingContract, topologies(), backend_name);
INSTANTIATE_TEST_SUITE_P(Verbs, PushContract, topologies(), backend_name);

}  // namespace farpage::contract
