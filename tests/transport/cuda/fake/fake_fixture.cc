#include "tests/transport/cuda/fake/fake_fixture.h"

#include <dlfcn.h>
#include <gmock/gmock.h>

namespace farpage {

using cuda::kSuccess;

FakeDriverTest::FakeDriverTest() {
  const auto driver = cuda::load_driver(FARPAGE_FAKE_CUDA);
  if (!driver) throw std::runtime_error(driver.error().message);
  driver_ = *driver;
  void* const library = ::dlopen(FARPAGE_FAKE_CUDA, RTLD_NOW | RTLD_LOCAL);
  const auto control =
      reinterpret_cast<decltype(&cuda::farpage_fake_cuda)>(::dlsym(library, "farpage_fake_cuda"));
  fake_ = control();
#define FARPAGE_CUDA_ENTRY(member, symbol, ...) \
  later_.member = reinterpret_cast<decltype(later_.member)>(::dlsym(library, #symbol));
#include "tests/transport/cuda/fake/later_entries.inc"
#undef FARPAGE_CUDA_ENTRY
  ::dlclose(library);  // the seam keeps it
  fake_->reset({});    // another test may have thrown
  start({});
}

FakeDriverTest::~FakeDriverTest() {
  expect_no_other_broken_rule();
  if (look_for_leaks_) {
    EXPECT_EQ(driver_.release_context(0), kSuccess);
    const cuda::FakeCounts left = fake_->live();
    EXPECT_EQ(left, cuda::FakeCounts())
        << left.contexts << " contexts, " << left.modules << " modules, " << left.streams
        << " streams, " << left.events << " events, " << left.device_ranges << " device ranges, "
        << left.host_ranges << " host ranges are left";
  }
  fake_->reset({});
}

void FakeDriverTest::start(const cuda::FakeSettings& settings) {
  expect_no_other_broken_rule();
  broken_rules_ = 0;
  fake_->reset(settings);
  ASSERT_EQ(driver_.init(0), kSuccess);
  ASSERT_EQ(driver_.retain_context(&context_, 0), kSuccess);
  ASSERT_EQ(driver_.use_context(context_), kSuccess);
}

void FakeDriverTest::expect_no_other_broken_rule() {
  const char* last = nullptr;
  EXPECT_EQ(fake_->broken_rules(&last), broken_rules_) << last;
}

void FakeDriverTest::expect_broken(int result, int expected, const std::string& words) {
  EXPECT_EQ(result, expected);
  const char* last = nullptr;
  EXPECT_EQ(fake_->broken_rules(&last), ++broken_rules_) << words;
  EXPECT_THAT(last, testing::HasSubstr(words));
}

cuda::Stream FakeDriverTest::make_stream() {
  cuda::Stream made = nullptr;
  EXPECT_EQ(driver_.make_stream(&made, 1), kSuccess);
  return made;
}

uint64_t FakeDriverTest::allocate(size_t bytes) {
  uint64_t made = 0;
  EXPECT_EQ(driver_.allocate(&made, bytes), kSuccess);
  return made;
}

std::byte* FakeDriverTest::pin(size_t bytes) {
  void* made = nullptr;
  EXPECT_EQ(driver_.allocate_host(&made, bytes, cuda::kRegisterDeviceMap), kSuccess);
  return static_cast<std::byte*>(made);
}

uint64_t FakeDriverTest::reserve(size_t bytes) {
  uint64_t address = 0;
  EXPECT_EQ(later_.reserve_addresses(&address, bytes, 0, 0, 0), kSuccess);
  return address;
}

void FakeDriverTest::map(uint64_t address) {
  const cuda::AllocationProperties properties;
  const cuda::MemoryAccess access;
  unsigned long long handle = 0;
  ASSERT_EQ(later_.create_memory(&handle, kGranule, &properties, 0), kSuccess);
  ASSERT_EQ(later_.map_memory(address, kGranule, 0, handle, 0), kSuccess);
  ASSERT_EQ(later_.set_access(address, kGranule, &access, 1), kSuccess);
  ASSERT_EQ(later_.release_memory(handle), kSuccess);
}

void FakeDriverTest::destroy(cuda::Stream stream) {
  EXPECT_EQ(driver_.wait_for_stream(stream), kSuccess);
  EXPECT_EQ(driver_.destroy_stream(stream), kSuccess);
}

}  // namespace farpage
