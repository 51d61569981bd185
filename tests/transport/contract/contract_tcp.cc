#include "tests/support/data_port.h"
#include "tests/transport/contract/contract.h"

namespace farpage::contract {
namespace {

class TcpHarness : public Harness {
 public:
  Fabric& passive() override { return *passive_; }
  Fabric& active() override { return *active_; }
  const Clock& clock() const override { return boottime_clock(); }
  Peer peer() const override { return {format_address(listener_->address()), "127.0.0.1"}; }
  // Several rounds through the thread that serves the passive side's connections.
  void settle() override {
    for (int round = 0; round < 3; ++round) make_round_trip();
  }

 private:
  std::unique_ptr<tcp::TcpFabric> passive_ = tcp::make_tcp_fabric({.io_threads = 2}).value();
  std::unique_ptr<tcp::TcpFabric> active_ = tcp::make_tcp_fabric({}).value();
  std::unique_ptr<Listener> listener_ = tcp::serve_data(*passive_);
};

const Backend kTcp{"tcp", [] { return std::make_unique<TcpHarness>(); }};

}  // namespace

INSTANTIATE_TEST_SUITE_P(Tcp, FabricContract, testing::Values(kTcp), backend_name);
INSTANTIATE_TEST_SUITE_P(Tcp, ClosingContract, testing::Values(kTcp), backend_name);
INSTANTIATE_TEST_SUITE_P(Tcp, WaitingContract, testing::Values(kTcp), backend_name);
INSTANTIATE_TEST_SUITE_P(Tcp, ProtectionContract, testing::Values(kTcp), backend_name);

}  // namespace farpage::contract
