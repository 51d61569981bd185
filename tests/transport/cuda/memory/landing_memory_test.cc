// Memory of a device that a NIC may write to, and what makes its writes visible.

#include "transport/cuda/memory/landing_memory.h"

#include <fcntl.h>
#include <gmock/gmock.h>

#include "tests/transport/cuda/fake/fake_fixture.h"

namespace farpage {
namespace {

using cuda::LandingMemory;
using cuda::LandingWay;
using cuda::WriteFlush;
using testing::HasSubstr;

class LandingMemoryTest : public FakeDriverTest {
 protected:
  static constexpr uint64_t kGpuPage = 64 * 1024;

  void begin(const cuda::FakeSettings& settings) {
    gpu_.reset();
    if (started_) {
      EXPECT_EQ(driver_.release_context(0), cuda::kSuccess);
    }
    start(settings);
    started_ = true;
    gpu_ = cuda::GpuContext::retain(driver_, 0).value();
  }
  Error refusal(LandingWay way) const {
    const auto refused = LandingMemory::make(gpu_, kGpuPage, way);
    return refused ? Error{} : refused.error();
  }

  std::shared_ptr<const cuda::GpuContext> gpu_;

 private:
  bool started_ = false;
};

TEST_F(LandingMemoryTest, IsExportedFromWholePagesOn) {
  begin({});
  const uint64_t odd = allocate(256);
  {
    auto memory = LandingMemory::make(gpu_, 3 * kGpuPage + 1, LandingWay::kDmaBuf).value();
    const MemoryRange range = memory.range();
    EXPECT_EQ(reinterpret_cast<uint64_t>(range.data) % kGpuPage, 0u);
    EXPECT_EQ(range.bytes, 4 * kGpuPage);
    EXPECT_EQ(range.place, (MemoryPlace{MemoryKind::kCuda, 0}));
    cuda::FakeHandle handle;
    ASSERT_TRUE(fake_->describe_handle(range.dma_buf, &handle));
    EXPECT_EQ(handle.bytes, range.bytes);
    // What is in the range is memory, to its last byte.
    const std::byte last{7};
    EXPECT_EQ(fake_->nic_write(reinterpret_cast<uint64_t>(range.data) + range.bytes - 1, &last, 1,
                               cuda::NicWrite::kOvertakes),
              cuda::kSuccess);
    memory.registered();
    EXPECT_LT(::fcntl(range.dma_buf, F_GETFD), 0);
    EXPECT_EQ(memory.range().dma_buf, -1);
  }
  EXPECT_EQ(driver_.free(odd), cuda::kSuccess);
}

TEST_F(LandingMemoryTest, HasNoDmaBufForThePeerMemoryModule) {
  begin({.dma_buf = false});
  EXPECT_EQ(LandingMemory::make(gpu_, kGpuPage, LandingWay::kPeerMemory).value().range().dma_buf,
            -1);
  EXPECT_EQ(fake_->calls("cuMemGetHandleForAddressRange"), 0u);
  EXPECT_THAT(refusal(LandingWay::kDmaBuf).message,
              HasSubstr("no dma-bufs of cuda:0: they need Linux 5.12"));
}

TEST_F(LandingMemoryTest, IsRefusedWithASentence) {
  begin({.device_bytes = kGpuPage});
  const Error none = refusal(LandingWay::kDmaBuf);
  EXPECT_EQ(none.code, Code::kExhausted);
  EXPECT_THAT(none.message, HasSubstr("cuda:0 has no 64 KiB where pages could land"));
  begin({});
  fake_->fail_call("cuMemGetHandleForAddressRange", 1, cuda::kOutOfMemory);
  EXPECT_THAT(refusal(LandingWay::kDmaBuf).message, HasSubstr("cuMemGetHandleForAddressRange: "));
}

TEST_F(LandingMemoryTest, IsFlushedAsTheDeviceSays) {
  struct Case {
    int writes_ordering, flush_options;
    WriteFlush flush;
  };
  for (const Case& it : {Case{100, 3, WriteFlush::kNone}, Case{200, 0, WriteFlush::kNone},
                         Case{0, 1, WriteFlush::kByHost}, Case{0, 2, WriteFlush::kInStream},
                         Case{0, 3, WriteFlush::kByHost}}) {
    begin({.writes_ordering = it.writes_ordering, .flush_options = it.flush_options});
    EXPECT_EQ(cuda::write_flush(driver_, 0).value(), it.flush);
  }
  begin({.writes_ordering = 0, .flush_options = 0});
  EXPECT_THAT(cuda::write_flush(driver_, 0).error().message,
              HasSubstr("cuda:0 does not order what network cards write"));
}

}  // namespace
}  // namespace farpage
