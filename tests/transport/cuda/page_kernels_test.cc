#include "transport/cuda/page_kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace farpage {
namespace {

// Its functions note what they are asked, and do nothing.
struct NotedLaunch {
  std::string kernel;
  unsigned blocks = 0;
  unsigned threads = 0;
  unsigned shared_bytes = 0;
  bool operator==(const NotedLaunch&) const = default;
};
struct Notes {
  int compute_major = 9;
  int shared_bytes = 232448;
  int load_result = cuda::kSuccess;
  int launch_result = cuda::kSuccess;
  std::string missing_kernel;
  int loaded = 0;
  int shared_limit = 0;
  std::vector<std::string> kernels;
  std::vector<NotedLaunch> launches;
};
Notes notes;

cuda::Driver noting_driver() {
  cuda::Driver driver;
  driver.error_name = [](int, const char**) { return 1; };
  driver.error_text = [](int, const char**) { return 1; };
  driver.device_attribute = [](int* value, int attribute, int) {
    *value = attribute == cuda::kComputeMajor ? notes.compute_major : notes.shared_bytes;
    return cuda::kSuccess;
  };
  driver.load_module = [](cuda::Module* module, const void*) {
    if (notes.load_result != cuda::kSuccess) return notes.load_result;
    *module = reinterpret_cast<cuda::Module>(&notes);
    ++notes.loaded;
    return cuda::kSuccess;
  };
  driver.unload_module = [](cuda::Module) {
    --notes.loaded;
    return cuda::kSuccess;
  };
  driver.find_function = [](cuda::Function* function, cuda::Module, const char* name) {
    constexpr int kNotFound = 500;
    if (notes.missing_kernel == name) return kNotFound;
    notes.kernels.emplace_back(name);
    *function = reinterpret_cast<cuda::Function>(notes.kernels.size());
    return cuda::kSuccess;
  };
  driver.set_function_attribute = [](cuda::Function, int, int value) {
    notes.shared_limit = value;
    return cuda::kSuccess;
  };
  driver.launch = [](cuda::Function function, unsigned blocks, unsigned, unsigned, unsigned threads,
                     unsigned, unsigned, unsigned shared_bytes, cuda::Stream, void**, void**) {
    notes.launches.push_back(
        {notes.kernels[reinterpret_cast<uintptr_t>(function) - 1], blocks, threads, shared_bytes});
    return notes.launch_result;
  };
  return driver;
}

TEST(FusedKernel, goes_through_shared_memory_from_compute_capability_9_on_if_pages_fit) {
  using cuda::FusedKernel;
  constexpr uint32_t kPage = 64 * 1024;
  EXPECT_EQ(cuda::choose_fused_kernel({8, 166912}, kPage), FusedKernel::kReadTwice);
  EXPECT_EQ(cuda::choose_fused_kernel({9, 232448}, kPage), FusedKernel::kThroughShared);
  EXPECT_EQ(cuda::choose_fused_kernel({12, 101376}, kPage), FusedKernel::kThroughShared);
  EXPECT_EQ(cuda::choose_fused_kernel({12, 101376}, 101376), FusedKernel::kReadTwice);
  EXPECT_EQ(cuda::choose_fused_kernel({9, 232448}, 232448 - 256), FusedKernel::kThroughShared);
  EXPECT_EQ(cuda::choose_fused_kernel({9, 232448}, 256 * 1024), FusedKernel::kReadTwice);
  EXPECT_EQ(cuda::choose_fused_kernel({9, 0}, kPage), FusedKernel::kReadTwice);
}

#ifdef FARPAGE_HAS_CUDA_KERNELS

cuda::PageBatch batch_of(uint32_t count, uint32_t longest_bytes) {
  cuda::PageBatch batch;
  batch.count = count;
  batch.longest_bytes = longest_bytes;
  return batch;
}

class PageKernelsTest : public testing::Test {
 protected:
  PageKernelsTest() { notes = {}; }
};

TEST_F(PageKernelsTest, are_started_with_a_page_a_block_or_two_for_the_crc_alone) {
  auto kernels = cuda::PageKernels::load(noting_driver(), 0);
  ASSERT_TRUE(kernels) << kernels.error().message;
  EXPECT_EQ(notes.shared_limit, 232448 - 256);
  ASSERT_TRUE(kernels->crcs(nullptr, batch_of(7, 65536)));
  ASSERT_TRUE(kernels->check_and_scatter(nullptr, batch_of(7, 65536)));
  ASSERT_TRUE(kernels->check_and_scatter(nullptr, batch_of(7, 512 * 1024)));
  ASSERT_EQ(kernels->gather(nullptr, batch_of(5, 65536)), cuda::kSuccess);
  EXPECT_THAT(notes.launches,
              testing::ElementsAre(NotedLaunch{"farpage_page_crcs", 4, 128, 0},
                                   NotedLaunch{"farpage_pages_through_shared", 7, 128, 65536},
                                   NotedLaunch{"farpage_pages_read_twice", 7, 128, 0},
                                   NotedLaunch{"farpage_gather_pages", 5, 128, 0}));
  kernels->unload();
  EXPECT_EQ(notes.loaded, 0);
}

// The driver refuses a launch of no block.
TEST_F(PageKernelsTest, are_not_started_for_no_page) {
  auto kernels = cuda::PageKernels::load(noting_driver(), 0);
  ASSERT_TRUE(kernels);
  EXPECT_TRUE(kernels->crcs(nullptr, batch_of(0, 65536)));
  EXPECT_TRUE(kernels->check_and_scatter(nullptr, batch_of(0, 65536)));
  EXPECT_EQ(kernels->gather(nullptr, batch_of(0, 65536)), cuda::kSuccess);
  EXPECT_TRUE(notes.launches.empty());
}

TEST_F(PageKernelsTest, need_no_bulk_copies_before_compute_capability_9) {
  notes.compute_major = 8;
  notes.missing_kernel = "farpage_pages_through_shared";
  auto kernels = cuda::PageKernels::load(noting_driver(), 0);
  ASSERT_TRUE(kernels) << kernels.error().message;
  ASSERT_TRUE(kernels->check_and_scatter(nullptr, batch_of(1, 65536)));
  EXPECT_EQ(notes.launches[0].kernel, "farpage_pages_read_twice");
}

TEST_F(PageKernelsTest, say_so_if_the_driver_takes_none) {
  notes.load_result = 209;  // CUDA_ERROR_NO_BINARY_FOR_GPU
  const auto kernels = cuda::PageKernels::load(noting_driver(), 0);
  ASSERT_FALSE(kernels);
  EXPECT_EQ(kernels.error().message, "the driver takes no kernel of this build: error 209");
}

TEST_F(PageKernelsTest, leave_nothing_loaded_if_one_is_missing) {
  notes.missing_kernel = "farpage_pages_read_twice";
  ASSERT_FALSE(cuda::PageKernels::load(noting_driver(), 0));
  EXPECT_EQ(notes.loaded, 0);
}

TEST_F(PageKernelsTest, hand_on_what_the_driver_says_of_a_launch) {
  auto kernels = cuda::PageKernels::load(noting_driver(), 0);
  ASSERT_TRUE(kernels);
  notes.launch_result = 700;
  const auto started = kernels->crcs(nullptr, batch_of(1, 65536));
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().message, "farpage_page_crcs: error 700");
}

#else

TEST(PageKernelsTest, say_that_the_build_has_none) {
  const auto kernels = cuda::PageKernels::load(noting_driver(), 0);
  ASSERT_FALSE(kernels);
  EXPECT_THAT(kernels.error().message, testing::HasSubstr("built without kernels for GPUs"));
  EXPECT_THAT(kernels.error().message, testing::HasSubstr("-DFARPAGE_CUDA=on"));
}

#endif

}  // namespace
}  // namespace farpage
