// Memory of a GPU that is not there, and slices that claim some.
#include "tests/support/posting.h"
#include "tests/transport/contract/contract.h"

namespace farpage::contract {
namespace {

constexpr MemoryPlace kGpu = {MemoryKind::kCuda, 3};
constexpr uint64_t kBytes = 4096;

// An address of a GPU's: the processor that looks there faults.
std::byte* device_address() {
  return reinterpret_cast<std::byte*>(uintptr_t{0x10000});
}

TEST_P(FabricContract, RegistersNoGpuMemoryAndSaysWhatToDo) {
  const auto refused = harness_->active().register_local({device_address(), kBytes, kGpu});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalid);
  for (const char* part : {"cuda:3", "register host memory"}) {
    EXPECT_NE(refused.error().message.find(part), std::string::npos) << refused.error().message;
  }
}

TEST_P(FabricContract, RegionAndItsSlicesTellTheirPlace) {
  Link link = make_link(ChannelPurpose::kRead, kBytes);
  EXPECT_EQ(link.local.place(), MemoryPlace());
  EXPECT_EQ(link.local.slice(0, 64).place, MemoryPlace());
  EXPECT_EQ(link.remote_region.place(), MemoryPlace());
  auto exported = harness_->passive().export_region(link.remote_region);
  EXPECT_EQ(exported->place, MemoryPlace());
}

// No copy touches a GPU's memory, with any registration that a slice claims.
TEST_P(FabricContract, PostsNothingOnASliceInGpuMemory) {
  for (const ChannelPurpose purpose : {ChannelPurpose::kRead, ChannelPurpose::kStage}) {
    Link link = make_link(purpose, kBytes);
    Operation operation;
    operation.kind =
        purpose == ChannelPurpose::kRead ? OperationKind::kRead : OperationKind::kWrite;
    operation.remote = link.remote;
    operation.local_count = 2;
    operation.local[0] = link.local.slice(0, 64);
    operation.local[1] = link.local.slice(64, 1024);
    operation.local[1].place = kGpu;
    for (std::byte* const data : {operation.local[1].data, device_address()}) {
      operation.local[1].data = data;
      ASSERT_EQ(post_all(*link.initiator, {&operation, 1}), 1u);
      const auto ended = collect(*link.initiator, 1);
      ASSERT_EQ(ended.size(), 1u);
      EXPECT_EQ(ended[0].outcome, Outcome::kRefused);
    }
    harness_->settle();
    EXPECT_TRUE(untouched(link.memory));
    Completion none;
    EXPECT_EQ(link.initiator->poll({&none, 1}), 0u);
    // The channel is as good as before.
    operation.local[1] = link.local.slice(64, 1024);
    operation.wants_crc = false;
    ASSERT_EQ(post_operations(*link.initiator, {&operation, 1}, soon()).accepted, 1u);
    EXPECT_EQ(collect(*link.initiator, 1).size(), 1u);
  }
}

}  // namespace
}  // namespace farpage::contract
