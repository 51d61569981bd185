// The seam's kernels over the fake: a batch of pages from the device's memory to an engine's
// layout.

#include <random>

#include "integrity/page_check.h"
#include "tests/transport/cuda/fake/staged_pages.h"

namespace farpage {
namespace {

class CheckedPages : public StagedPages, public testing::WithParamInterface<cuda::FusedKernel> {
 protected:
  CheckedPages() {
    const auto loaded = cuda::PageKernels::load(driver_, 0);
    if (!loaded) throw std::runtime_error(loaded.error().message);
    kernels_ = *loaded;
    stage();
  }
  ~CheckedPages() override {
    unstage();
    kernels_.unload();
  }
  uint8_t finding(uint32_t page) const { return static_cast<uint8_t>(host_[kFindings + page]); }

  cuda::PageKernels kernels_;
};

TEST_P(CheckedPages, land_in_the_engines_layout) {
  check_and_scatter(kernels_, GetParam());
  for (uint32_t page = 0; page < kPages; ++page) {
    EXPECT_TRUE(is_good(page)) << page;
    EXPECT_EQ(finding(page), static_cast<uint8_t>(PageFinding::kGood)) << page;
    EXPECT_TRUE(landed(page)) << page;
  }
}

TEST_P(CheckedPages, leave_their_destination_untouched_if_a_bit_is_flipped) {
  std::mt19937_64 random(4);
  for (uint32_t page = 0; page < kPages; page += 2) {
    payload(page)[random() % kPageBytes] ^= std::byte{1} << random() % 8;
  }
  check_and_scatter(kernels_, GetParam());
  for (uint32_t page = 0; page < kPages; ++page) {
    const bool bad = page % 2 == 0;
    EXPECT_EQ(is_good(page), !bad) << page;
    EXPECT_EQ(landed(page), !bad) << page;
    EXPECT_EQ(is_untouched(page), bad) << page;
    EXPECT_EQ(finding(page),
              static_cast<uint8_t>(bad ? PageFinding::kCorrupt : PageFinding::kGood));
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, CheckedPages,
                         testing::Values(cuda::FusedKernel::kThroughShared,
                                         cuda::FusedKernel::kReadTwice),
                         [](const auto& it) {
                           return it.param == cuda::FusedKernel::kReadTwice ? "read_twice"
                                                                            : "through_shared";
                         });

}  // namespace
}  // namespace farpage
