// What the seam's kernels do over the fake when a call, or the device, fails.

#include <gmock/gmock.h>

#include "tests/transport/cuda/fake/staged_pages.h"
#include "transport/cuda/kernels/header_check.h"

namespace farpage {
namespace {

using cuda::FusedKernel;
using cuda::kIllegalAddress;
using cuda::kSuccess;
using testing::HasSubstr;

class PageFaults : public StagedPages {
 protected:
  void load() {
    const auto loaded = cuda::PageKernels::load(driver_, 0);
    ASSERT_TRUE(loaded) << loaded.error().message;
    kernels_ = *loaded;
  }
  // Stages, breaks something, and checks: the device ends the context with this error.
  template <typename Break>
  void expect_device_error(FusedKernel kernel, int expected, const Break& broken) {
    start({});
    load();
    stage();
    cuda::PageBatch given = batch();
    broken(given);
    ASSERT_EQ(driver_.copy_to_device(device_, host_, kAllBytes, stream_), kSuccess);
    ASSERT_TRUE(kernels_.check_and_scatter(kernel, stream_, given));
    EXPECT_EQ(driver_.wait_for_stream(stream_), expected);
    const auto again = kernels_.check_and_scatter(kernel, stream_, batch());
    EXPECT_FALSE(again);
    leave_everything();
  }

  // What is changed there is what the host has written.
  struct Change {
    cuda::PageItem* operator->() const { return &item; }
    cuda::PageItem& item;
    ~Change() { item.check = cuda::item_check(item); }
  };
  Change change(uint32_t page) { return {item(page)}; }

  cuda::PageKernels kernels_;
};

TEST_F(PageFaults, at_each_call_of_loading_leave_nothing_loaded) {
  for (const auto& [call, calls] :
       {std::pair("cuDeviceGetAttribute", 2), std::pair("cuModuleLoadData", 1),
        std::pair("cuModuleGetFunction", 5), std::pair("cuFuncSetAttribute", 1)}) {
    for (int nth = 1; nth <= calls; ++nth) {
      fake_->fail_call(call, nth, cuda::kNotSupported);
      const auto loaded = cuda::PageKernels::load(driver_, 0);
      ASSERT_FALSE(loaded) << call << " " << nth;
      EXPECT_THAT(loaded.error().message, HasSubstr("CUDA_ERROR_NOT_SUPPORTED"));
      EXPECT_EQ(fake_->live().modules, 0) << call << " " << nth;
    }
  }
  load();
  kernels_.unload();
}

TEST_F(PageFaults, of_a_launch_are_handed_on_and_touch_nothing) {
  load();
  stage();
  ASSERT_EQ(driver_.copy_to_device(device_, host_, kAllBytes, stream_), kSuccess);
  for (const FusedKernel kernel : {FusedKernel::kThroughShared, FusedKernel::kReadTwice}) {
    fake_->fail_call("cuLaunchKernel", 1, cuda::kOutOfMemory);
    const auto started = kernels_.check_and_scatter(kernel, stream_, batch());
    ASSERT_FALSE(started);
    EXPECT_THAT(started.error().message, HasSubstr("CUDA_ERROR_OUT_OF_MEMORY"));
  }
  ASSERT_EQ(driver_.copy_to_host(host_, device_, kAllBytes, stream_), kSuccess);
  ASSERT_EQ(driver_.wait_for_stream(stream_), kSuccess);
  for (uint32_t page = 0; page < kPages; ++page) {
    EXPECT_FALSE(is_good(page));
    EXPECT_TRUE(is_untouched(page));
  }
  unstage();
  kernels_.unload();
}

TEST_F(PageFaults, of_addresses_end_the_context) {
  for (const FusedKernel kernel : {FusedKernel::kThroughShared, FusedKernel::kReadTwice}) {
    expect_device_error(kernel, kIllegalAddress,
                        [this](auto&) { change(7)->payload = device_ + kAllBytes; });
    expect_device_error(kernel, kIllegalAddress, [this](auto&) { change(7)->header = 4096; });
    expect_device_error(kernel, cuda::kMisalignedAddress,
                        [this](auto&) { change(7)->payload += 4; });
    expect_device_error(kernel, kIllegalAddress, [](cuda::PageBatch& it) { it.items = 4096; });
    expect_device_error(kernel, kIllegalAddress, [this](auto&) { change(0)->block = kPages; });
    expect_device_error(kernel, kIllegalAddress, [this](cuda::PageBatch& it) {
      it.out.findings = reinterpret_cast<uint8_t*>(host_ - 1);
    });
  }
}

// One bit in what the kernel is told of a page: it follows no address of that, and takes the page
// nowhere.
TEST_F(PageFaults, of_an_item_leave_its_page_where_it_is) {
  for (const FusedKernel kernel : {FusedKernel::kThroughShared, FusedKernel::kReadTwice}) {
    load();
    stage();
    for (uint32_t page = 0; page < kPages; page += 2) {
      const size_t bit = page * 13 % (8 * offsetof(cuda::PageItem, check));
      reinterpret_cast<std::byte*>(&item(page))[bit / 8] ^= std::byte{1} << bit % 8;
    }
    check_and_scatter(kernels_, kernel);
    for (uint32_t page = 0; page < kPages; ++page) {
      const bool is_bad = page % 2 == 0;
      EXPECT_EQ(is_good(page), !is_bad) << page;
      EXPECT_EQ(landed(page), !is_bad) << page;
      EXPECT_EQ(is_untouched(page), is_bad) << page;
    }
    unstage();
    kernels_.unload();
  }
}

TEST_F(PageFaults, of_pages_longer_than_the_shared_memory_end_the_context) {
  expect_device_error(FusedKernel::kThroughShared, kIllegalAddress,
                      [](cuda::PageBatch& it) { it.longest_bytes = kPageBytes - 16; });
}

// The stream comes to it after the memory is gone: on a GPU, whatever lies there then.
TEST_F(PageFaults, of_memory_that_was_freed_before_the_kernel_ran_end_the_context) {
  load();
  stage();
  fake_->hold(stream_);
  ASSERT_TRUE(kernels_.check_and_scatter(stream_, batch()));
  ASSERT_EQ(driver_.free(device_), kSuccess);
  fake_->release(stream_);
  EXPECT_EQ(driver_.wait_for_stream(stream_), kIllegalAddress);
  leave_everything();
}

TEST_F(PageFaults, of_a_module_that_a_stream_still_uses) {
  load();
  stage();
  ASSERT_EQ(driver_.copy_to_device(device_, host_, kAllBytes, stream_), kSuccess);
  fake_->hold(stream_);
  ASSERT_TRUE(kernels_.check_and_scatter(stream_, batch()));
  cuda::PageKernels copy = kernels_;
  kernels_.unload();
  expect_broken(cuda::kInvalidValue, cuda::kInvalidValue, "still has its kernels");
  fake_->release(stream_);
  ASSERT_EQ(driver_.wait_for_stream(stream_), kSuccess);
  copy.unload();
  unstage();
}

}  // namespace
}  // namespace farpage
