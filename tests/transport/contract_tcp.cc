#include <array>

#include "tests/support/data_port.h"
#include "tests/transport/contract.h"

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
    std::array<std::byte, 64> memory;
    for (int round = 0; round < 3; ++round) {
      auto offered = passive_->offer_channel(ChannelPurpose::kRead).value();
      offered.offer.peer = peer();
      auto channel = active_->connect(std::move(offered.offer), clock().now_ns() + kSecond).value();
      auto pool = passive_->allocate_readable(memory.size()).value();
      auto local = active_->register_local({.data = memory.data(), .bytes = memory.size()}).value();
      Operation read;
      read.local_count = 1;
      read.local[0] = local.slice(0, memory.size());
      read.remote = channel->import_region(passive_->export_region(pool).value()).value();
      EXPECT_EQ(channel->post({&read, 1}, kNever).accepted, 1u);
      Completion ended;
      while (channel->poll({&ended, 1}) == 0) channel->wait(clock().now_ns() + kSecond);
      EXPECT_EQ(ended.outcome, Outcome::kOk);
    }
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
INSTANTIATE_TEST_SUITE_P(Tcp, ProtectionContract, testing::Values(kTcp), backend_name);

}  // namespace farpage::contract
