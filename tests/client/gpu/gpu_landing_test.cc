// Pages that a network card writes to a GPU's memory, where the GPU checks them.

#include "tests/client/gpu/gpu_landing.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <array>
#include <atomic>
#include <thread>

#include "client/runner/fence.h"

namespace farpage {
namespace {

using cuda::kSuccess;
using testing::AllOf;
using testing::HasSubstr;

// Ordering of a NIC's writes, and the flushes that the device has.
struct Visibility {
  const char* name;
  int writes_ordering;
  int flush_options;
  const char* flush;  // what brings the writes; "": nothing has to
};
constexpr std::array kVisibilities = {
    Visibility{"Ordered", 100, 0, ""},
    Visibility{"OrderedForAll", 200, 3, ""},
    Visibility{"FlushedByTheHost", 0, 1, "cuFlushGPUDirectRDMAWrites"},
    Visibility{"FlushedInStreams", 0, 2, "cuStreamWaitValue64_v2"},
    Visibility{"FlushedByEither", 0, 3, "cuFlushGPUDirectRDMAWrites"},
};

class GpuLandingOn : public GpuLandingClient, public testing::WithParamInterface<Visibility> {
 protected:
  cuda::FakeSettings settings() const {
    return {.writes_ordering = GetParam().writes_ordering,
            .flush_options = GetParam().flush_options};
  }
};

TEST_P(GpuLandingOn, BringsPagesOnceTheirBytesAreSeen) {
  open_and_register(settings());
  ASSERT_TRUE(are_ready(fetch()));
  EXPECT_TRUE(is_whole());
  EXPECT_EQ(landed("dma-buf"), kStored);
  EXPECT_EQ(landed("host"), 0u);
  EXPECT_EQ(fake_->calls("cuMemcpyHtoDAsync_v2") + fake_->calls("cuMemcpyDtoHAsync_v2"), 0u);
  for (const char* flush : {"cuFlushGPUDirectRDMAWrites", "cuStreamWaitValue64_v2"}) {
    EXPECT_EQ(fake_->calls(flush) > 0, GetParam().flush == std::string(flush)) << flush;
  }
}

TEST_P(GpuLandingOn, LeavesNothingBehind) {
  open_with(settings());
  const cuda::FakeCounts before = fake_->live();
  region_ = tier_->register_gpu_memory(pages_on_gpu(kStored), kStored * kPageBytes).value();
  EXPECT_EQ(nic_.registered, 1);
  ASSERT_TRUE(are_ready(fetch()));
  end();
  EXPECT_EQ(nic_.registered, 0);
  cuda::FakeCounts after = fake_->live();
  --after.device_ranges;  // the test's
  EXPECT_EQ(after, before);
}

INSTANTIATE_TEST_SUITE_P(Devices, GpuLandingOn, testing::ValuesIn(kVisibilities),
                         [](const auto& it) { return std::string(it.param.name); });

class LandingOnGpu : public GpuLandingClient {
 protected:
  // What the client says when it registers memory of the GPU.
  std::string log_of_registering() {
    testing::internal::CaptureStderr();
    region_ = registered(kStored);
    return testing::internal::GetCapturedStderr();
  }
  Error refusal() {
    const uint64_t address = pages_on_gpu(kStored);
    const auto refused = tier_->register_gpu_memory(address, kStored * kPageBytes);
    free_on_gpu(address);
    return refused ? Error{} : refused.error();
  }
  // Before another start().
  void close() {
    end();
    free_on_gpu(memory_);
  }
  bool is_page(std::span<const std::byte> bytes, size_t page) const {
    return std::ranges::equal(bytes, sources_->page(page));
  }
};

TEST_F(LandingOnGpu, ClosesTheDmaBufOnceItIsRegistered) {
  open_and_register({});
  EXPECT_EQ(fake_->calls("cuMemGetHandleForAddressRange"), 1u);
  ASSERT_GE(nic_.dma_buf, 0);
  // Its number may be another file's by now.
  struct stat now = {};
  EXPECT_TRUE(::fstat(nic_.dma_buf, &now) != 0 || now.st_ino != nic_.inode);
}

TEST_F(LandingOnGpu, AsksAgainForAPageThatTheWireHasSpoiledOnce) {
  std::atomic<bool> is_spoiled = false;
  nic_.spoil = [&](std::span<std::byte> bytes) {
    if (is_page(bytes, 3) && !is_spoiled.exchange(true)) bytes[17] ^= std::byte{4};
  };
  open_and_register({});
  ASSERT_TRUE(are_ready(fetch()));
  EXPECT_TRUE(is_spoiled);
  EXPECT_TRUE(is_whole());
}

TEST_F(LandingOnGpu, LeavesTheDestinationOfASpoiledPageAlone) {
  nic_.spoil = [&](std::span<std::byte> bytes) {
    if (is_page(bytes, 3)) bytes[kPageBytes - 1] ^= std::byte{1};
  };
  open_and_register({.writes_ordering = 0, .flush_options = 1});
  const Ticket ticket = fetch();
  for (size_t i = 0; i < kStored; ++i) {
    EXPECT_EQ(is_ready(ticket, i), i != 3) << i;
    EXPECT_EQ(has_page(region_, i, *sources_, i), i != 3) << i;
  }
  EXPECT_EQ(ticket.verdicts()[3].reason, Reason::kCorrupt);
  EXPECT_TRUE(is_filled_with(address_of(region_, 3), kUntouched));
}

// The pages are read again; later ones do not come to a GPU that may refuse them all.
TEST_F(LandingOnGpu, IsInTheHostsMemoryOnceACheckIsRefused) {
  for (const char* call : {"cuFlushGPUDirectRDMAWrites", "cuLaunchKernel", "cuStreamWaitEvent"}) {
    if (tier_ != nullptr) close();
    open_and_register({.writes_ordering = 0, .flush_options = 1});
    fake_->fail_call(call, 1, cuda::kInvalidValue);
    testing::internal::CaptureStderr();
    ASSERT_TRUE(are_ready(fetch())) << call;
    EXPECT_TRUE(is_whole());
    const uint64_t on_gpu = landed("dma-buf");
    EXPECT_GT(on_gpu, 0u);
    EXPECT_EQ(landed("host"), kStored - on_gpu);
    wipe(region_);
    ASSERT_TRUE(are_ready(fetch())) << call;
    EXPECT_TRUE(is_whole());
    EXPECT_EQ(landed("dma-buf"), on_gpu);
    EXPECT_THAT(testing::internal::GetCapturedStderr(),
                HasSubstr("pages land in the host's memory from now on"));
  }
}

TEST_F(LandingOnGpu, IsStalledWhileChecksStandStill) {
  open_and_register({});
  fake_->hold(nullptr);
  const Ticket ticket = fetch(30'000);
  EXPECT_TRUE(are(ticket, Verdict::kRecompute, Reason::kStalled));
  EXPECT_TRUE(is_untouched());
  fake_->release(nullptr);
  EXPECT_TRUE(ticket.wait_released(patience_ns()));
  EXPECT_TRUE(is_untouched());
  EXPECT_TRUE(are_ready(fetch()));
  EXPECT_TRUE(is_whole());
}

// Nothing is read for it any more, and the log says why.
TEST_F(LandingOnGpu, EndsWithTheContext) {
  open_and_register({});
  fake_->hold(nullptr);
  testing::internal::CaptureStderr();
  const Ticket ticket = fetch();
  until_copies_are_under_way();
  fake_->break_context(context_, cuda::kIllegalAddress);
  ticket.wait();
  for (const PageVerdict& page : ticket.verdicts()) {
    EXPECT_EQ(page.verdict, Verdict::kRecompute);
  }
  EXPECT_TRUE(ticket.wait_released(patience_ns()));
  const uint64_t written = nic_.written;
  EXPECT_TRUE(are(fetch(), Verdict::kRecompute, Reason::kUnreachable));
  EXPECT_EQ(nic_.written, written);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("pages were not copied to cuda:0"), HasSubstr("ILLEGAL_ADDRESS")));
  EXPECT_FALSE(tier_->register_gpu_memory(address_of(region_), kPageBytes));
  forget_allocations();
  leave_everything();
}

// A kernel that waits at the fence may have every multiprocessor, which a check would need.
TEST_F(LandingOnGpu, IsNotForFetchesWithAFenceNorForOthersMeanwhile) {
  bounce_bytes_ = kMiB;  // four blocks
  open_and_register({});
  std::vector<std::byte> memory(Fence::bytes_for(kStored));
  Fence fence(memory, kStored);
  Notification to_fence;
  to_fence.fence = &fence;
  const Region other = registered(1);
  fake_->hold(nullptr);
  const Ticket fenced = tier_->fetch(fetches_to(region_), kTimeoutUs, {}, to_fence).value();
  const Ticket beside = tier_->fetch(fetches_to(other), kTimeoutUs).value();
  until([this] { return landed("host") == kStored + 1; });
  fake_->release(nullptr);
  EXPECT_TRUE(are_ready(fenced));
  EXPECT_TRUE(are_ready(beside));
  EXPECT_EQ(nic_.written, 0u);
  EXPECT_TRUE(are_ready(fetch()));
  EXPECT_EQ(landed("dma-buf"), kStored);
}

// A fetch goes on by way of the host's memory, and what has landed on the GPU waits for its check.
TEST_F(LandingOnGpu, EndsInTheMiddleOfAFetchWhenAFenceComes) {
  open_and_register({});  // 24 pages, and blocks of 16
  fake_->hold(nullptr);
  const Ticket first = fetch();
  until([this] { return nic_.written > 0; });
  std::vector<std::byte> memory(Fence::bytes_for(1));
  Fence fence(memory, 1);
  Notification to_fence;
  to_fence.fence = &fence;
  const Region other = registered(1);
  const Ticket fenced = tier_->fetch(fetches_to(other), kTimeoutUs, {}, to_fence).value();
  fake_->release(nullptr);
  EXPECT_TRUE(are_ready(fenced));
  EXPECT_TRUE(are_ready(first));
  EXPECT_TRUE(is_whole());
  EXPECT_GE(landed("host"), 1u);
  EXPECT_EQ(landed("host") + landed("dma-buf"), kStored + 1);
}

// The check reads a block on the GPU: it goes, and what the check needs, once that has ended. Its
// end is asked for where the context is current: elsewhere a driver says nothing of it, and after
// kDoubtNs it would count as ended.
TEST_F(LandingOnGpu, EndsWithItsClientOnceItsChecksHave) {
  open_and_register({});
  fake_->hold(nullptr);
  EXPECT_TRUE(are(fetch(30'000), Verdict::kRecompute, Reason::kStalled));
  EXPECT_GT(fake_->live().operations, 0);
  ASSERT_EQ(driver_.use_context(nullptr), kSuccess);
  const Clock& clock = boottime_clock();
  const uint64_t over_ns = clock.now_ns() + cuda::kDoubtNs * 3 / 2;
  std::thread releases([&] {
    until([&] { return clock.now_ns() >= over_ns; });
    EXPECT_GT(fake_->live().operations, 0);
    EXPECT_GT(fake_->live().modules, 0);
    fake_->release(nullptr);
  });
  end();
  releases.join();
  EXPECT_EQ(fake_->live().operations, 0);
  EXPECT_EQ(fake_->live().modules, 0);
  ASSERT_EQ(driver_.use_context(context_), kSuccess);
}

TEST_F(LandingOnGpu, IsInEachGpusOwnMemory) {
  open_with({.devices = 2});
  cuda::Context second = nullptr;
  ASSERT_EQ(driver_.retain_context(&second, 1), kSuccess);
  ASSERT_EQ(driver_.use_context(second), kSuccess);
  const uint64_t there = allocate(kStored * kPageBytes);
  ASSERT_EQ(driver_.use_context(context_), kSuccess);
  region_ = registered(kStored);
  {
    const Region other = tier_->register_gpu_memory(there, kStored * kPageBytes).value();
    const Ticket to_second = tier_->fetch(fetches_to(other), kTimeoutUs).value();
    ASSERT_TRUE(are_ready(fetch()));
    ASSERT_TRUE(are_ready(to_second));
    for (size_t i = 0; i < kStored; ++i) EXPECT_TRUE(has_page(other, i, *sources_, i)) << i;
  }
  EXPECT_TRUE(is_whole());
  EXPECT_EQ(landed("dma-buf"), 2 * kStored);
  EXPECT_EQ(nic_.registered, 2);
  end();
  ASSERT_EQ(driver_.use_context(second), kSuccess);
  EXPECT_EQ(driver_.free(there), kSuccess);
  ASSERT_EQ(driver_.use_context(context_), kSuccess);
  EXPECT_EQ(driver_.release_context(1), kSuccess);
}

TEST_F(LandingOnGpu, IsNotForPuts) {
  open_and_register({});
  ASSERT_TRUE(are_ready(fetch()));
  const Ticket put = tier_->put(puts_from(region_, 100), kTimeoutUs).value();
  put.wait();
  for (const PutResult& result : put.results()) EXPECT_EQ(result.code, Code::kOk) << put.why();
  const Pages back(*tier_, kStored);
  ASSERT_TRUE(are_ready(tier_->fetch(fetches(back, 100), kTimeoutUs).value()));
  for (size_t i = 0; i < kStored; ++i) EXPECT_TRUE(is_page(back.page(i), i)) << i;
}

TEST_F(LandingOnGpu, TakesAddressesWhereThereAreNoDmaBufs) {
  nic_.takes_addresses = true;
  open_with({.dma_buf = false});
  EXPECT_THAT(log_of_registering(), HasSubstr("cuda:0: pages land in the GPU's memory (peermem)"));
  ASSERT_TRUE(are_ready(fetch()));
  EXPECT_TRUE(is_whole());
  EXPECT_EQ(landed("peermem"), kStored);
}

TEST_F(LandingOnGpu, IsInTheHostsMemoryWhereNoWayIsThereAndSaysWhy) {
  nic_.takes_dma_bufs = false;
  open_with({});
  EXPECT_THAT(log_of_registering(),
              AllOf(HasSubstr("cuda:0: pages land in the host's memory"), HasSubstr("gpu.landing"),
                    HasSubstr("takes no dma-bufs; this NIC takes no addresses")));
  ASSERT_TRUE(are_ready(fetch()));
  EXPECT_TRUE(is_whole());
  EXPECT_EQ(landed("host"), kStored);
}

TEST_F(LandingOnGpu, IsInTheHostsMemoryWhereNothingMakesWritesVisible) {
  open_with({.writes_ordering = 0, .flush_options = 0});
  EXPECT_THAT(log_of_registering(), HasSubstr("cuda:0 does not order what network cards write"));
  ASSERT_TRUE(are_ready(fetch()));
  EXPECT_EQ(landed("host"), kStored);
  EXPECT_EQ(nic_.written, 0u);
}

TEST_F(LandingOnGpu, IsInTheHostsMemoryWhereNothingIsChecked) {
  OpenOptions unchecked = with_landing("auto");
  unchecked.client.verify = false;
  open_with({.writes_ordering = 0, .flush_options = 1}, unchecked);
  EXPECT_THAT(log_of_registering(), HasSubstr("this client checks nothing"));
  ASSERT_TRUE(are_ready(fetch()));
  EXPECT_TRUE(is_whole());
  EXPECT_EQ(nic_.written, 0u);
}

TEST_F(LandingOnGpu, IsRefusedWhereTheOneWayThatWasAskedForIsNotThere) {
  open_with({.dma_buf = false}, with_landing("dma-buf"));
  EXPECT_THAT(refusal().message, HasSubstr("CUDA's driver has no dma-bufs of cuda:0"));
  end();
  open_with({}, with_landing("peermem"));
  EXPECT_THAT(refusal().message, HasSubstr("takes no addresses of devices"));
  end();
  tier_ = open(with_landing("dma-buf"));
  const Error error = refusal();
  EXPECT_EQ(error.code, Code::kInvalid);
  EXPECT_THAT(error.message, AllOf(HasSubstr("gpu.landing is \"dma-buf\""),
                                   HasSubstr("between host memory alone")));
}

TEST_F(LandingOnGpu, IsInTheHostsMemoryWhereThatWasAskedFor) {
  open_with({}, with_landing("host"));
  EXPECT_EQ(log_of_registering(), "");
  ASSERT_TRUE(are_ready(fetch()));
  EXPECT_EQ(landed("host"), kStored);
  EXPECT_EQ(nic_.registered, 0);
}

TEST_F(LandingOnGpu, HasNoOtherNames) {
  OpenOptions options = with_landing("gpu");
  const auto refused = Farpage::open(options);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message,
              HasSubstr("gpu.landing is \"gpu\": choose auto, dma-buf, peermem or host"));
}

// Fails each call once that the landing makes: a registration that fails, or pages that are wrong
// or lost, and nothing that stays behind.
TEST_F(LandingOnGpu, LosesNothingWhateverCallFailsOnce) {
  for (const char* call :
       {"cuMemAlloc_v2", "cuMemGetHandleForAddressRange", "cuMemHostRegister_v2",
        "cuMemHostGetDevicePointer_v2", "cuStreamCreate", "cuEventCreate", "cuModuleLoadData",
        "cuMemcpyDtoDAsync_v2", "cuMemcpyBatchAsync_v2", "cuEventRecord", "cuEventQuery"}) {
    for (int nth = 1; nth < 4; ++nth) {
      open_with({});
      const uint64_t address = pages_on_gpu(kStored);
      const cuda::FakeCounts before = fake_->live();
      fake_->fail_call(call, nth, cuda::kOutOfMemory);
      auto registered = tier_->register_gpu_memory(address, kStored * kPageBytes);
      if (registered) {
        region_ = std::move(*registered);
        const Ticket ticket = fetch();
        ticket.wait();
        for (size_t i = 0; i < kStored; ++i) {
          EXPECT_TRUE(!is_ready(ticket, i) || has_page(region_, i, *sources_, i)) << call;
        }
      }
      fake_->fail_call(call, 0, kSuccess);
      end();
      EXPECT_EQ(fake_->live(), before) << call << " " << nth;
      EXPECT_EQ(nic_.registered, 0);
      free_on_gpu(address);
    }
  }
}

}  // namespace
}  // namespace farpage
