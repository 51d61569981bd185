// A place in a channel's queue still holds the operation that was there before.
#include <gtest/gtest.h>

#include "sim/sim_cluster.h"
#include "tests/support/cluster.h"
#include "tests/support/engine.h"
#include "transport/forwarding_fabric.h"
#include "transport/forwarding_initiator.h"

namespace farpage {
namespace {

constexpr uint64_t kPageBytes = 512;

// Each place held the worst that it could.
class LeftoversFabric final : public ForwardingFabric {
 public:
  using ForwardingFabric::ForwardingFabric;

  Result<std::unique_ptr<Initiator>> connect(ChannelOffer offer, uint64_t deadline_ns) override {
    auto initiator = ForwardingFabric::connect(std::move(offer), deadline_ns);
    if (!initiator) return initiator;
    return std::make_unique<LeftoversInitiator>(std::move(*initiator));
  }

 private:
  class LeftoversInitiator final : public ForwardingInitiator {
   public:
    using ForwardingInitiator::ForwardingInitiator;

    Operation& next() override {
      Operation& operation = ForwardingInitiator::next();
      operation.kind =
          operation.kind == OperationKind::kRead ? OperationKind::kWrite : OperationKind::kRead;
      operation.local_count = 7;
      operation.wants_crc = operation.has_immediate = operation.alone = operation.follows = true;
      operation.immediate = UINT32_MAX;
      operation.remote.index = UINT32_MAX;
      operation.tag = UINT64_MAX;
      operation.deadline_ns = 0;
      operation.remote_offset = UINT64_MAX - 100;
      for (Slice& slice : operation.local) slice = {nullptr, UINT64_MAX, UINT64_MAX, {}};
      return operation;
    }
  };
};

class Leftovers : public testing::TestWithParam<uint64_t> {};

TEST_P(Leftovers, AreNothingToWhatIsWrittenThere) {
  SimClusterOptions options;
  options.nodes_apart = GetParam();
  SimCluster cluster(1, options);
  LeftoversFabric fabric(cluster.client_fabric(0));
  const auto client = cluster.connect(0, {}, &fabric).value();
  Engine engine(*client, kPageBytes, 8);
  for (uint64_t round = 1; round <= 3; ++round) {
    for (uint64_t page = 0; page < 8; ++page) {
      ASSERT_EQ(engine.put(test_key(page), round).code, Code::kOk);
    }
    // By its index, and then from where it was found.
    for (int look = 0; look < 2; ++look) {
      for (uint64_t page = 0; page < 8; ++page) {
        ASSERT_EQ(engine.fetch(test_key(page)).verdict, Verdict::kReady);
        EXPECT_EQ(engine.put_number_of(test_key(page)), round);
      }
    }
    EXPECT_EQ(engine.fetch(test_key(100)).reason, Reason::kMiss);
  }
  EXPECT_EQ(engine.lane().stats().channels_ended, 0u);
}

// Which copies, and looks at deadlines.
TEST(LeftoversOverShm, AreNothingToWhatIsWrittenThere) {
  Cluster cluster(Path::kShm);
  AsioRuntime runtime;
  const auto own = shm::make_shm_fabric();
  LeftoversFabric fabric(*own);
  const auto dialer = make_dialer(runtime, cluster.address(), {}, 10'000).value();
  ClientOptions options;
  options.staging_bytes = kMiB;
  const auto client = Client::connect(options, runtime, fabric, *dialer).value();
  Engine engine(*client, cluster.options().page_bytes, 64);
  for (uint64_t round = 1; round <= 30; ++round) {
    for (uint64_t page = 0; page < 8; ++page) {
      ASSERT_EQ(engine.put(test_key(page), round).code, Code::kOk);
      const PageVerdict verdict = engine.fetch(test_key(page));
      ASSERT_EQ(verdict.verdict, Verdict::kReady);
      EXPECT_EQ(verdict.attempts, 1u) << "no read was ended by another one's deadline";
      EXPECT_EQ(engine.put_number_of(test_key(page)), round);
    }
  }
  EXPECT_EQ(engine.lane().stats().channels_ended, 0u);
}

INSTANTIATE_TEST_SUITE_P(Slots, Leftovers, testing::Values(0, 1));

}  // namespace
}  // namespace farpage
