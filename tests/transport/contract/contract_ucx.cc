#include <array>
#include <cstdlib>

#include "tests/support/posting.h"
#include "tests/transport/contract/contract.h"
#include "transport/ucx/ucx_fabric.h"

// Over posix shared memory; elsewhere over what UCX_TLS says, where there is such a device.
namespace farpage::contract {
namespace {

class UcxHarness : public Harness {
 public:
  Fabric& passive() override { return *passive_; }
  Fabric& active() override { return *active_; }
  const Clock& clock() const override { return boottime_clock(); }
  // A read through the same devices, behind whatever is under way.
  void settle() override {
    std::array<std::byte, 64> memory = {};
    auto offered = passive_->offer_channel(ChannelPurpose::kRead).value();
    auto channel =
        active_->connect(std::move(offered.offer), clock().now_ns() + 10 * kSecond).value();
    auto pool = passive_->allocate_readable(memory.size()).value();
    auto local = active_->register_local({.data = memory.data(), .bytes = memory.size()}).value();
    Operation read;
    read.local_count = 1;
    read.local[0] = local.slice(0, memory.size());
    read.remote = import_whole(*channel, passive_->export_region(pool).value()).value();
    EXPECT_EQ(post_operations(*channel, {&read, 1}).accepted, 1u);
    Completion ended;
    while (channel->poll({&ended, 1}) == 0) channel->wait(clock().now_ns() + 10 * kSecond);
    EXPECT_EQ(ended.outcome, Outcome::kOk);
  }

 private:
  static std::unique_ptr<Fabric> make(bool trusted_clients) {
    const char* chosen = std::getenv("UCX_TLS");
    ucx::UcxOptions options;
    options.trusted_clients = trusted_clients;
    options.transports = chosen == nullptr ? "posix" : chosen;
    return ucx::make_ucx_fabric(options).value();
  }

  std::unique_ptr<Fabric> passive_ = make(true);
  std::unique_ptr<Fabric> active_ = make(false);
};

const Backend kUcx{"ucx", [] { return std::make_unique<UcxHarness>(); }};

}  // namespace

// Neither ProtectionContract, as UCX 1.13 protects no region, nor ChecksumContract.
INSTANTIATE_TEST_SUITE_P(Ucx, FabricContract, testing::Values(kUcx), backend_name);
INSTANTIATE_TEST_SUITE_P(Ucx, ClosingContract, testing::Values(kUcx), backend_name);
INSTANTIATE_TEST_SUITE_P(Ucx, WaitingContract, testing::Values(kUcx), backend_name);

}  // namespace farpage::contract
