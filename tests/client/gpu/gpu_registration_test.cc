// Memory of GPUs that is registered with a client, and what is refused.

#include <gmock/gmock.h>

#include <array>

#include "client/gpu/gpu_runners.h"
#include "tests/client/gpu/gpu_client.h"

namespace farpage {
namespace {

using cuda::kSuccess;
using testing::AllOf;
using testing::HasSubstr;

class GpuRegistration : public GpuClient {
 protected:
  GpuRegistration() { tier_ = open(options()); }

  // The refusal; it leaves nothing behind in the driver.
  Error refusal(uint64_t address, uint64_t bytes) {
    const cuda::FakeCounts before = fake_->live();
    const auto refused = tier_->register_gpu_memory(address, bytes);
    EXPECT_EQ(fake_->live(), before);
    return refused ? Error{} : refused.error();
  }
  bool is_usable(uint64_t address) {
    const auto region = tier_->register_gpu_memory(address, kPageBytes);
    if (!region) return false;
    const Pages source(*tier_, 1, 9);
    put_all(*tier_, source);
    return are_ready(tier_->fetch(fetches_to(*region), kTimeoutUs).value()) &&
           has_page(*region, 0, source, 0);
  }
};

TEST_F(GpuRegistration, NamesTheGpuAndLeavesTheCallersContextAlone) {
  const uint64_t address = pages_on_gpu(2);
  ASSERT_EQ(driver_.use_context(nullptr), kSuccess);
  {
    const Region region = tier_->register_gpu_memory(address, 2 * kPageBytes).value();
    EXPECT_EQ(region.place(), (MemoryPlace{MemoryKind::kCuda, 0}));
    EXPECT_EQ(address_of(region), address);
    EXPECT_EQ(region.bytes(), 2 * kPageBytes);
    uint64_t more = 0;
    EXPECT_EQ(driver_.allocate(&more, 64), cuda::kInvalidContext);
    tier_.reset();
    EXPECT_EQ(driver_.allocate(&more, 64), cuda::kInvalidContext);
  }
  ASSERT_EQ(driver_.use_context(context_), kSuccess);
}

TEST_F(GpuRegistration, TakesThreadAndMemoryOnceForEachGpu) {
  const uint64_t address = pages_on_gpu(4);
  const cuda::FakeCounts before = fake_->live();
  const Region first = tier_->register_gpu_memory(address, 2 * kPageBytes).value();
  const cuda::FakeCounts after = fake_->live();
  EXPECT_EQ(after.host_ranges, before.host_ranges + kOwnRanges);
  EXPECT_EQ(after.streams, before.streams + 3);  // to the device, and from there, and of checks
  const Region second =
      tier_->register_gpu_memory(address + 2 * kPageBytes, 2 * kPageBytes).value();
  EXPECT_EQ(fake_->live(), after);
  tier_.reset();
  EXPECT_EQ(fake_->live(), before);
}

TEST_F(GpuRegistration, TakesMemoryThatIsMappedPieceByPiece) {
  const uint64_t base = reserve(3 * kGranule);
  map(base);
  map(base + kGranule);
  const Error half = refusal(base + kGranule, 2 * kGranule);
  EXPECT_EQ(half.code, Code::kInvalid);
  EXPECT_THAT(half.message, AllOf(HasSubstr("only the first 2097152 are mapped memory of cuda:0"),
                                  HasSubstr("register what is mapped")));
  EXPECT_TRUE(is_usable(base + kGranule - kPageBytes));
  {
    const Region whole = tier_->register_gpu_memory(base, 2 * kGranule).value();
    const Pages source(*tier_, 1, 7);
    put_all(*tier_, source);
    const std::array requests = {
        PageRequest{key(0), 0, whole.slice(kGranule - kPageBytes / 2, kPageBytes)}};
    EXPECT_TRUE(are_ready(tier_->fetch(requests, kTimeoutUs).value()));
    EXPECT_TRUE(std::ranges::equal(on_gpu(base + kGranule - kPageBytes / 2), source.page(0)));
  }
  EXPECT_EQ(later_.unmap_memory(base, 2 * kGranule), kSuccess);
  EXPECT_EQ(later_.free_addresses(base, 3 * kGranule), kSuccess);
}

TEST_F(GpuRegistration, RefusesWhatIsNoMemoryOfAGpu) {
  std::array<std::byte, 64> plain = {};
  EXPECT_THAT(refusal(reinterpret_cast<uint64_t>(plain.data()), 64).message,
              HasSubstr("are no memory that CUDA knows in this process"));
  std::byte* const pinned = pin(kPageBytes);
  EXPECT_THAT(refusal(reinterpret_cast<uint64_t>(pinned), 64).message,
              HasSubstr("are host memory: register them as such"));
  EXPECT_EQ(driver_.free_host(pinned), kSuccess);
  const uint64_t address = pages_on_gpu(1);
  EXPECT_THAT(refusal(address, 0).message, HasSubstr("the 0 bytes at 0x"));
  EXPECT_THAT(refusal(address, UINT64_MAX).message, HasSubstr("are no memory"));
  EXPECT_THAT(refusal(address, kPageBytes + 1).message,
              HasSubstr("only the first 4096 are mapped memory of cuda:0"));
  free_on_gpu(address);
  EXPECT_EQ(refusal(address, kPageBytes).code, Code::kInvalid);
}

TEST_F(GpuRegistration, RefusesMemoryOfTheHostWhereNoGpuIsInUse) {
  ASSERT_EQ(driver_.use_context(nullptr), kSuccess);
  ASSERT_EQ(driver_.release_context(0), kSuccess);
  EXPECT_THAT(refusal(4096, 64).message, HasSubstr("are no memory that CUDA knows"));
  ASSERT_EQ(driver_.retain_context(&context_, 0), kSuccess);
  ASSERT_EQ(driver_.use_context(context_), kSuccess);
}

TEST_F(GpuRegistration, SaysWhatTheDriverLacks) {
  fake_->reset({.devices = 0});
  const auto refused = tier_->register_gpu_memory(4096, 64);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnavailable);
  EXPECT_THAT(refused.error().message,
              AllOf(HasSubstr("CUDA_ERROR_NO_DEVICE"), HasSubstr("nvidia-smi")));
  start({});
}

// Each call of it fails once, and then all is well.
TEST_F(GpuRegistration, ThatFailsAnywhereLeavesNothingBehindAndMayBeTriedAgain) {
  const uint64_t address = pages_on_gpu(1);
  for (const auto& [call, nth, result, words] :
       {std::tuple("cuDeviceGetCount", 1, 802, "cuDeviceGetCount"),
        std::tuple("cuDevicePrimaryCtxGetState", 1, 802, "cuDevicePrimaryCtxGetState"),
        std::tuple("cuDevicePrimaryCtxRetain", 1, cuda::kOutOfMemory, "primary context of cuda:0"),
        std::tuple("cuDevicePrimaryCtxRetain", 2, cuda::kOutOfMemory, "primary context of cuda:0"),
        std::tuple("cuPointerGetAttributes", 1, 802, "cuPointerGetAttributes"),
        std::tuple("cuPointerGetAttributes", 2, 802, "cuPointerGetAttributes"),
        std::tuple("cuMemGetAddressRange_v2", 1, cuda::kNotFound, "only the first 0"),
        std::tuple("cuMemHostRegister_v2", 1, cuda::kOutOfMemory, "gpu.bounce_bytes"),
        std::tuple("cuStreamCreate", 1, cuda::kOutOfMemory, "no stream and events"),
        std::tuple("cuEventCreate", 1, cuda::kOutOfMemory, "no stream and events"),
        std::tuple("cuCtxPushCurrent_v2", 3, 802, "gpu.bounce_bytes"),
        std::tuple("cuCtxPushCurrent_v2", 4, 802, "no stream and events")}) {
    fake_->fail_call(call, nth, result);
    EXPECT_THAT(refusal(address, kPageBytes).message, HasSubstr(words)) << call << " " << nth;
  }
  EXPECT_TRUE(is_usable(address));
}

TEST_F(GpuRegistration, NeedsBounceMemoryForAPage) {
  OpenOptions small = options();
  small.embedded_node.page_bytes = 128 * kKiB;
  tier_ = open(small);
  const Error refused = refusal(pages_on_gpu(1), kPageBytes);
  EXPECT_EQ(refused.code, Code::kInvalid);
  EXPECT_THAT(refused.message, HasSubstr("gpu.bounce_bytes is 65536"));
}

TEST_F(GpuRegistration, WithoutADriverIsASentence) {
  const auto connection = Connection::open(embedded()).value();
  Client& client = connection->client();
  WriteRunner writes(client, {});
  GpuRunners gpus(client, writes, {}, {}, "libfarpage_no_such_driver.so.1");
  const auto refused = gpus.register_memory(4096, 64);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kNotFound);
  EXPECT_THAT(refused.error().message, HasSubstr("install NVIDIA's driver"));
  GpuRunners old(client, writes, {}, {}, "libc.so.6");
  EXPECT_THAT(old.register_memory(4096, 64).error().message, HasSubstr("has no cuInit"));
}

}  // namespace
}  // namespace farpage
