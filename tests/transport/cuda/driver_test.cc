#include "transport/cuda/driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace farpage {
namespace {

using testing::HasSubstr;

TEST(CudaDriver, says_what_to_do_where_there_is_none) {
  const auto driver = cuda::load_driver("libfarpage_no_such_driver.so.1");
  ASSERT_FALSE(driver);
  EXPECT_EQ(driver.error().code, Code::kNotFound);
  EXPECT_THAT(driver.error().message, HasSubstr("no CUDA driver: libfarpage_no_such_driver.so.1"));
  EXPECT_THAT(driver.error().message, HasSubstr("install NVIDIA's driver"));
}

TEST(CudaDriver, names_the_entry_that_a_library_lacks) {
  const auto driver = cuda::load_driver("libc.so.6");
  ASSERT_FALSE(driver);
  EXPECT_EQ(driver.error().message,
            "libc.so.6 has no cuInit: install NVIDIA's driver for CUDA 12 or later");
}

TEST(CudaDriver, shows_an_error_with_its_name_and_text) {
  cuda::Driver driver;
  driver.error_name = [](int, const char** name) {
    *name = "CUDA_ERROR_INVALID_VALUE";
    return cuda::kSuccess;
  };
  driver.error_text = [](int, const char** text) {
    *text = "invalid argument";
    return cuda::kSuccess;
  };
  EXPECT_EQ(cuda::driver_error(driver, 1, "cuMemAlloc"),
            "cuMemAlloc: CUDA_ERROR_INVALID_VALUE: invalid argument");
}

// A driver may be older than the error that it hands on.
TEST(CudaDriver, shows_the_number_of_an_error_that_it_does_not_know) {
  cuda::Driver driver;
  driver.error_name = [](int, const char**) { return 1; };
  driver.error_text = [](int, const char**) { return 1; };
  EXPECT_EQ(cuda::driver_error(driver, 913, "cuInit"), "cuInit: error 913");
}

}  // namespace
}  // namespace farpage
