// What the fake's devices say of themselves, and which launches they take.

#include <string>

#include "tests/transport/cuda/fake/fake_fixture.h"

namespace farpage {
namespace {

using cuda::kInvalidValue;
using cuda::kSuccess;

class FakeDevice : public FakeDriverTest {
 protected:
  static constexpr uint32_t kFatBinary = 0xBA55ED50;

  int attribute(int which) {
    int value = -1;
    EXPECT_EQ(driver_.device_attribute(&value, which, 0), kSuccess) << which;
    return value;
  }
  cuda::Module load() {
    cuda::Module module = nullptr;
    EXPECT_EQ(driver_.load_module(&module, &kFatBinary), kSuccess);
    return module;
  }
};

TEST_F(FakeDevice, has_the_attributes_that_were_set) {
  start({.compute_major = 12,
         .shared_bytes = 101376,
         .writes_ordering = 200,
         .flush_options = 3,
         .dma_buf = false,
         .vmm = false,
         .stream_wait_values = false});
  EXPECT_EQ(attribute(75), 12);
  EXPECT_EQ(attribute(97), 101376);
  EXPECT_EQ(attribute(118), 200);
  EXPECT_EQ(attribute(117), 3);
  EXPECT_EQ(attribute(98), 1);
  EXPECT_EQ(attribute(124), 0);
  EXPECT_EQ(attribute(102), 0);
  EXPECT_EQ(attribute(122), 0);
  start({});
  EXPECT_EQ(attribute(118), 100);
  EXPECT_EQ(attribute(98), 0);
  EXPECT_EQ(attribute(124), 1);
  int value = 0;
  EXPECT_EQ(driver_.device_attribute(&value, 9999, 0), kInvalidValue);
}

TEST_F(FakeDevice, takes_no_image_but_that_of_nvcc) {
  const std::string other = "no image";
  cuda::Module module = nullptr;
  EXPECT_EQ(driver_.load_module(&module, other.data()), cuda::kInvalidImage);
  expect_broken(driver_.load_module(&module, nullptr), kInvalidValue, "no image");
}

TEST_F(FakeDevice, has_no_bulk_copies_before_compute_capability_9) {
  start({.compute_major = 8});
  const cuda::Module module = load();
  cuda::Function function = nullptr;
  EXPECT_EQ(driver_.find_function(&function, module, "farpage_pages_through_shared"),
            cuda::kNotFound);
  EXPECT_EQ(driver_.find_function(&function, module, "farpage_pages_read_twice"), kSuccess);
  EXPECT_EQ(driver_.unload_module(module), kSuccess);
  expect_broken(driver_.unload_module(module), cuda::kInvalidHandle, "was unloaded");
  expect_broken(driver_.launch(function, 1, 1, 1, 128, 1, 1, 0, nullptr, nullptr, nullptr),
                cuda::kInvalidHandle, "no such function");
}

TEST_F(FakeDevice, refuses_launches_of_another_shape) {
  const cuda::Module module = load();
  cuda::Function function = nullptr;
  ASSERT_EQ(driver_.find_function(&function, module, "farpage_page_crcs"), kSuccess);
  void* parameters[4] = {};
  const auto launch = [&](unsigned blocks, unsigned threads, unsigned shared_bytes) {
    return driver_.launch(function, blocks, 1, 1, threads, 1, 1, shared_bytes, nullptr, parameters,
                          nullptr);
  };
  expect_broken(launch(0, 128, 0), kInvalidValue, "the grid is empty");
  expect_broken(launch(1, 64, 0), kInvalidValue, "the shape");
  expect_broken(launch(1, 128, 48 * 1024 + 1), kInvalidValue, "more shared memory");
  expect_broken(driver_.set_function_attribute(function, 8, 232448 + 1), kInvalidValue, "more");
  EXPECT_EQ(driver_.unload_module(module), kSuccess);
}

}  // namespace
}  // namespace farpage
