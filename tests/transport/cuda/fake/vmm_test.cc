// Virtual memory of the fake, and descriptors of ranges.

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/transport/cuda/fake/fake_fixture.h"

namespace farpage {
namespace {

using cuda::kInvalidValue;
using cuda::kNotSupported;
using cuda::kSuccess;

class FakeVirtualMemory : public FakeDriverTest {
 protected:
  unsigned long long create(size_t bytes) {
    unsigned long long handle = 0;
    EXPECT_EQ(later_.create_memory(&handle, bytes, &properties_, 0), kSuccess);
    return handle;
  }
  int fill(uint64_t address, size_t bytes) {
    const int result = driver_.fill(address, 0x5A, bytes, nullptr);
    EXPECT_EQ(driver_.wait_for_stream(nullptr), kSuccess);
    return result;
  }
  cuda::AllocationProperties properties_;
  cuda::MemoryAccess access_;
};

TEST_F(FakeVirtualMemory, is_used_across_mappings_once_it_has_access) {
  const uint64_t base = reserve(3 * kGranule);
  EXPECT_EQ(base % kGranule, 0u);
  map(base);
  map(base + kGranule);
  EXPECT_EQ(fill(base + kGranule - 8, 16), kSuccess);
  expect_broken(fill(base + 2 * kGranule - 8, 16), kInvalidValue, "out of range");
  const unsigned long long handle = create(kGranule);
  ASSERT_EQ(later_.map_memory(base + 2 * kGranule, kGranule, 0, handle, 0), kSuccess);
  expect_broken(fill(base + 2 * kGranule, 8), kInvalidValue, "out of range");
  EXPECT_EQ(later_.unmap_memory(base, 3 * kGranule), kSuccess);
  EXPECT_EQ(later_.release_memory(handle), kSuccess);
  expect_broken(later_.release_memory(handle), kInvalidValue, "was released");
  expect_broken(fill(base, 8), kInvalidValue, "out of range");
  EXPECT_EQ(later_.free_addresses(base, 3 * kGranule), kSuccess);
}

TEST_F(FakeVirtualMemory, takes_only_multiples_of_the_granularity) {
  size_t granule = 0;
  ASSERT_EQ(later_.granularity(&granule, &properties_, 0), kSuccess);
  EXPECT_EQ(granule, kGranule);
  unsigned long long handle = 0;
  uint64_t address = 0;
  expect_broken(later_.create_memory(&handle, 4096, &properties_, 0), kInvalidValue, "multiple");
  expect_broken(later_.reserve_addresses(&address, 4096, 0, 0, 0), kInvalidValue, "multiple");
  expect_broken(later_.reserve_addresses(&address, kGranule, 3, 0, 0), kInvalidValue, "power");
  const uint64_t base = reserve(2 * kGranule);
  handle = create(kGranule);
  for (const auto& [at, bytes, offset] :
       {std::tuple(base + 4096, kGranule, size_t{0}), std::tuple(base, size_t{4096}, size_t{0}),
        std::tuple(base, kGranule, kGranule), std::tuple(base, 2 * kGranule, size_t{0}),
        std::tuple(base + 2 * kGranule, kGranule, size_t{0})}) {
    expect_broken(later_.map_memory(at, bytes, offset, handle, 0), kInvalidValue, "do not go");
  }
  EXPECT_EQ(later_.release_memory(handle), kSuccess);
  EXPECT_EQ(later_.free_addresses(base, 2 * kGranule), kSuccess);
}

TEST_F(FakeVirtualMemory, is_unmapped_and_freed_whole) {
  const uint64_t base = reserve(2 * kGranule);
  map(base);
  const unsigned long long handle = create(kGranule);
  expect_broken(later_.map_memory(base, kGranule, 0, handle, 0), kInvalidValue, "is mapped there");
  EXPECT_EQ(later_.release_memory(handle), kSuccess);
  expect_broken(later_.free_addresses(base, 2 * kGranule), kInvalidValue, "still mapped");
  expect_broken(later_.unmap_memory(base, 4096), kInvalidValue, "parts of mappings");
  expect_broken(later_.unmap_memory(base, 2 * kGranule), kInvalidValue, "not mapped");
  expect_broken(later_.set_access(base, 2 * kGranule, &access_, 1), kInvalidValue, "not mapped");
  const cuda::Stream stream = make_stream();
  fake_->hold(stream);
  ASSERT_EQ(driver_.fill(base, 1, 8, stream), kSuccess);
  expect_broken(later_.unmap_memory(base, kGranule), kInvalidValue, "a stream still uses");
  fake_->release(stream);
  destroy(stream);
  EXPECT_EQ(later_.unmap_memory(base, kGranule), kSuccess);
  expect_broken(later_.free_addresses(base, kGranule), kInvalidValue, "not reserved by one call");
  EXPECT_EQ(later_.free_addresses(base, 2 * kGranule), kSuccess);
  expect_broken(later_.free_addresses(base, 2 * kGranule), kInvalidValue, "was freed");
}

TEST_F(FakeVirtualMemory, is_read_only_if_its_access_says_so) {
  const uint64_t base = reserve(kGranule);
  map(base);
  access_.flags = 1;
  ASSERT_EQ(later_.set_access(base, kGranule, &access_, 1), kSuccess);
  expect_broken(fill(base, 8), kInvalidValue, "out of range");
  EXPECT_EQ(later_.unmap_memory(base, kGranule), kSuccess);
  EXPECT_EQ(later_.free_addresses(base, kGranule), kSuccess);
}

TEST_F(FakeVirtualMemory, is_missing_on_a_device_without_it) {
  start({.vmm = false});
  unsigned long long handle = 0;
  uint64_t address = 0;
  int supported = -1;
  ASSERT_EQ(driver_.device_attribute(&supported, 102, 0), kSuccess);
  EXPECT_EQ(supported, 0);
  EXPECT_EQ(later_.create_memory(&handle, kGranule, &properties_, 0), kNotSupported);
  EXPECT_EQ(later_.reserve_addresses(&address, kGranule, 0, 0, 0), kNotSupported);
}

// Whether a dma-buf or a memfd, a NIC's write through it is seen on the device.
TEST_F(FakeVirtualMemory, has_a_descriptor_that_shares_the_devices_memory) {
  const uint64_t base = reserve(kGranule);
  map(base);
  int descriptor = -1;
  ASSERT_EQ(driver_.range_handle(&descriptor, base + 8192, 4096, cuda::kDmaBufDescriptor, 0),
            kSuccess);
  cuda::FakeHandle handle;
  ASSERT_TRUE(fake_->describe_handle(descriptor, &handle));
  EXPECT_EQ(handle.bytes, 4096u);
  EXPECT_EQ(handle.is_dma_buf, ::access("/dev/udmabuf", R_OK | W_OK) == 0);
  EXPECT_EQ(handle.offset, handle.is_dma_buf ? 0u : 8192u);
  void* const map = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor,
                           static_cast<off_t>(handle.offset));
  ASSERT_NE(map, MAP_FAILED);
  static_cast<char*>(map)[5] = 77;
  char seen = 0;
  ASSERT_EQ(fake_->peek(base + 8192 + 5, &seen, 1), kSuccess);
  EXPECT_EQ(seen, 77);
  ::munmap(map, 4096);
  ::close(descriptor);
  EXPECT_EQ(later_.unmap_memory(base, kGranule), kSuccess);
  EXPECT_EQ(later_.free_addresses(base, kGranule), kSuccess);
}

TEST_F(FakeVirtualMemory, has_a_descriptor_only_for_whole_pages_that_are_mapped) {
  const uint64_t base = reserve(3 * kGranule);
  map(base);
  map(base + kGranule);
  std::byte* const host = pin(4096);
  const uint64_t device = allocate(4096 + 100);
  int descriptor = -1;
  const auto ask = [&](uint64_t address, size_t bytes, unsigned long long flags = 0) {
    return driver_.range_handle(&descriptor, address, bytes, cuda::kDmaBufDescriptor, flags);
  };
  expect_broken(ask(base + 1, 4096), kInvalidValue, "multiples of a page");
  expect_broken(ask(base, 4097), kInvalidValue, "multiples of a page");
  expect_broken(ask(base + kGranule, 2 * kGranule), kInvalidValue, "not mapped whole");
  expect_broken(ask(base, 2 * kGranule), kInvalidValue, "by one allocation");
  expect_broken(ask(device, 3 * 4096), kInvalidValue, "not mapped whole");
  expect_broken(ask(0x1000, 4096), kInvalidValue, "there is no memory");
  EXPECT_EQ(ask(reinterpret_cast<uint64_t>(host), 4096), kNotSupported);
  EXPECT_EQ(ask(base, 4096, 1), kNotSupported);
  EXPECT_EQ(ask(device, 2 * 4096), kSuccess);  // the page in which the allocation ends
  ::close(descriptor);
  EXPECT_EQ(driver_.free(device), kSuccess);
  EXPECT_EQ(driver_.free_host(host), kSuccess);
  EXPECT_EQ(later_.unmap_memory(base, 2 * kGranule), kSuccess);
  EXPECT_EQ(later_.free_addresses(base, 3 * kGranule), kSuccess);
}

TEST_F(FakeVirtualMemory, has_no_descriptor_on_a_device_without_dma_buf) {
  start({.dma_buf = false});
  const uint64_t device = allocate(4096);
  int descriptor = -1;
  EXPECT_EQ(driver_.range_handle(&descriptor, device, 4096, cuda::kDmaBufDescriptor, 0),
            kNotSupported);
  EXPECT_EQ(driver_.free(device), kSuccess);
}

}  // namespace
}  // namespace farpage
