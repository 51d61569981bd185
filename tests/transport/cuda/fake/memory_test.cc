// Memory of the fake: stricter than a GPU's.

#include <fcntl.h>
#include <sys/mman.h>

#include <cerrno>

#include "base/unique_fd.h"
#include "tests/transport/cuda/fake/fake_fixture.h"

namespace farpage {
namespace {

using cuda::kInvalidValue;
using cuda::kSuccess;

using FakeMemory = FakeDriverTest;

// The kernel says so: a load or a store of the test's own would end it, which a sanitizer reports.
TEST_F(FakeMemory, cannot_be_reached_by_the_host) {
  const uint64_t device = allocate(4096);
  const UniqueFd zero(::open("/dev/zero", O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(zero.valid());
  errno = 0;
  EXPECT_EQ(::read(zero.get(), reinterpret_cast<void*>(device), 1), -1);
  EXPECT_EQ(errno, EFAULT);
  EXPECT_EQ(driver_.free(device), kSuccess);
}

TEST_F(FakeMemory, is_freed_once_and_as_it_was_allocated) {
  const uint64_t device = allocate(8192);
  expect_broken(driver_.free(device + 4096), kInvalidValue, "no allocation begins there");
  EXPECT_EQ(driver_.free(device), kSuccess);
  expect_broken(driver_.free(device), kInvalidValue, "was freed");
  std::byte* const host = pin(100);
  EXPECT_EQ(driver_.free_host(host), kSuccess);
  expect_broken(driver_.free_host(host), kInvalidValue, "was freed");
}

TEST_F(FakeMemory, is_not_freed_while_a_stream_uses_it) {
  const cuda::Stream stream = make_stream();
  const uint64_t device = allocate(4096);
  std::byte* const host = pin(4096);
  fake_->hold(stream);
  ASSERT_EQ(driver_.copy_to_device(device, host, 4096, stream), kSuccess);
  expect_broken(driver_.free(device), kInvalidValue, "a stream still uses");
  expect_broken(driver_.free_host(host), kInvalidValue, "a stream still uses");
  fake_->release(stream);
  destroy(stream);
  EXPECT_EQ(driver_.free(device), kSuccess);
  EXPECT_EQ(driver_.free_host(host), kSuccess);
}

TEST_F(FakeMemory, ends_at_the_byte_that_was_asked_for) {
  const cuda::Stream stream = make_stream();
  const uint64_t device = allocate(1000);
  std::byte* const host = pin(2000);
  EXPECT_EQ(driver_.fill(device, 0, 1000, stream), kSuccess);
  expect_broken(driver_.fill(device, 0, 1001, stream), kInvalidValue, "out of range");
  expect_broken(driver_.copy_to_device(device + 1, host, 1000, stream), kInvalidValue, "range");
  expect_broken(driver_.copy_to_host(host, device - 1, 2, stream), kInvalidValue, "range");
  expect_broken(driver_.copy_to_host(host + 1999, device, 2, stream), kInvalidValue, "range");
  uint64_t address = 0;
  ASSERT_EQ(driver_.host_address(&address, host, 0), kSuccess);
  expect_broken(driver_.fill(address + 1999, 0, 2, stream), kInvalidValue, "out of range");
  expect_broken(driver_.copy_on_device(device, device + 10, 100, stream), kInvalidValue, "overlap");
  destroy(stream);
  EXPECT_EQ(driver_.free(device), kSuccess);
  EXPECT_EQ(driver_.free_host(host), kSuccess);
}

TEST_F(FakeMemory, of_the_host_is_copied_only_if_it_is_pinned) {
  const cuda::Stream stream = make_stream();
  const uint64_t device = allocate(64);
  std::byte host[64] = {};
  expect_broken(driver_.copy_to_device(device, host, 64, stream), kInvalidValue, "pinned");
  ASSERT_EQ(driver_.register_host(host, 64, 0), kSuccess);
  EXPECT_EQ(driver_.copy_to_device(device, host, 64, stream), kSuccess);
  destroy(stream);
  EXPECT_EQ(driver_.unregister_host(host), kSuccess);
  EXPECT_EQ(driver_.free(device), kSuccess);
}

TEST_F(FakeMemory, of_the_host_is_registered_once) {
  std::byte host[64] = {};
  expect_broken(driver_.unregister_host(host), cuda::kNotRegistered, "nothing is registered");
  ASSERT_EQ(driver_.register_host(host, 64, 0), kSuccess);
  expect_broken(driver_.register_host(host + 8, 8, 0), cuda::kAlreadyRegistered, "registered");
  uint64_t address = 0;
  expect_broken(driver_.host_address(&address, host, 0), kInvalidValue, "mapped for the device");
  EXPECT_EQ(driver_.unregister_host(host), kSuccess);
}

TEST_F(FakeMemory, of_the_host_that_is_read_only_is_registered_only_so) {
  void* const map = ::mmap(nullptr, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(map, MAP_FAILED);
  const cuda::Stream stream = make_stream();
  const uint64_t device = allocate(8192);
  expect_broken(driver_.register_host(map, 8192, 0), kInvalidValue, "read-only");
  const unsigned flags = cuda::kRegisterReadOnly | cuda::kRegisterDeviceMap;
  ASSERT_EQ(driver_.register_host(map, 8192, flags), kSuccess);
  uint64_t address = 0;
  ASSERT_EQ(driver_.host_address(&address, map, 0), kSuccess);
  EXPECT_NE(address, reinterpret_cast<uint64_t>(map));
  EXPECT_EQ(driver_.copy_on_device(device, address, 8192, stream), kSuccess);
  expect_broken(driver_.copy_to_host(map, device, 8192, stream), kInvalidValue, "pinned");
  expect_broken(driver_.fill(address, 1, 1, stream), kInvalidValue, "out of range");
  destroy(stream);
  EXPECT_EQ(driver_.unregister_host(map), kSuccess);
  EXPECT_EQ(driver_.free(device), kSuccess);
  ::munmap(map, 8192);
  expect_broken(driver_.register_host(map, 8192, flags), kInvalidValue, "not mapped");
}

TEST_F(FakeMemory, runs_out) {
  start({.device_bytes = 1 << 20});
  const uint64_t device = allocate(1 << 19);
  uint64_t more = 0;
  EXPECT_EQ(driver_.allocate(&more, (1 << 19) + 1), cuda::kOutOfMemory);
  EXPECT_EQ(driver_.free(device), kSuccess);
  expect_broken(driver_.allocate(&more, 0), kInvalidValue, "no byte");
}

TEST_F(FakeMemory, tells_what_an_address_is) {
  const uint64_t device = allocate(4096);
  std::byte* const host = pin(4096);
  const auto ask = [this](uint64_t address) {
    unsigned type = 9;
    uint64_t base = 9;
    size_t bytes = 9;
    int ordinal = 9;
    int attributes[] = {cuda::kPointerMemoryType, cuda::kPointerRangeStart,
                        cuda::kPointerRangeBytes, cuda::kPointerDevice};
    void* values[] = {&type, &base, &bytes, &ordinal};
    EXPECT_EQ(driver_.pointer_attributes(4, attributes, values, address), kSuccess);
    return std::tuple(type, base, bytes, ordinal);
  };
  EXPECT_EQ(ask(device + 100), std::tuple(cuda::kMemoryTypeDevice, device, 4096u, 0));
  const auto on_host = reinterpret_cast<uint64_t>(host);
  EXPECT_EQ(ask(on_host + 1), std::tuple(cuda::kMemoryTypeHost, on_host, 4096u, 0));
  int local = 0;
  EXPECT_EQ(ask(reinterpret_cast<uint64_t>(&local)), std::tuple(0u, 0u, 0u, -2));
  uint64_t base = 0;
  size_t bytes = 0;
  EXPECT_EQ(driver_.address_range(&base, &bytes, device + 7), kSuccess);
  EXPECT_EQ(std::tuple(base, bytes), std::tuple(device, 4096u));
  EXPECT_EQ(driver_.free(device), kSuccess);
  EXPECT_EQ(driver_.address_range(&base, &bytes, device), cuda::kNotFound);
  EXPECT_EQ(driver_.free_host(host), kSuccess);
}

TEST_F(FakeMemory, is_of_the_context_that_is_current) {
  start({.devices = 2});
  const cuda::Stream stream = make_stream();
  const uint64_t device = allocate(4096);
  cuda::Context other = nullptr;
  ASSERT_EQ(driver_.retain_context(&other, 1), kSuccess);
  ASSERT_EQ(driver_.use_context(other), kSuccess);
  expect_broken(driver_.free(device), kInvalidValue, "another context");
  expect_broken(driver_.fill(device, 0, 1, nullptr), kInvalidValue, "this device");
  expect_broken(driver_.fill(device, 0, 1, stream), cuda::kInvalidHandle, "another context");
  ASSERT_EQ(driver_.use_context(nullptr), kSuccess);
  EXPECT_EQ(driver_.free(device), cuda::kInvalidContext);
  ASSERT_EQ(driver_.use_context(context_), kSuccess);
  EXPECT_EQ(driver_.release_context(1), kSuccess);
  expect_broken(driver_.release_context(0), cuda::kInvalidContext, "are left");
  destroy(stream);
  EXPECT_EQ(driver_.free(device), kSuccess);
}

}  // namespace
}  // namespace farpage
