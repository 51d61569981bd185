// Calls of the fake that fail by order, and contexts that an error has ended.

#include <gmock/gmock.h>

#include <functional>
#include <map>
#include <thread>

#include "tests/transport/cuda/fake/fake_fixture.h"

namespace farpage {
namespace {

using cuda::kIllegalAddress;
using cuda::kSuccess;

using FakeFaults = FakeDriverTest;

TEST_F(FakeFaults, come_at_the_call_that_was_named_and_once) {
  fake_->fail_call("cuMemAlloc_v2", 2, cuda::kOutOfMemory);
  const uint64_t first = allocate(64);
  uint64_t second = 0;
  EXPECT_EQ(driver_.allocate(&second, 64), cuda::kOutOfMemory);
  EXPECT_EQ(second, 0u);
  const uint64_t third = allocate(64);
  EXPECT_EQ(driver_.free(first), kSuccess);
  EXPECT_EQ(driver_.free(third), kSuccess);
}

TEST_F(FakeFaults, can_refuse_every_so_many_copies_to_a_device_and_records) {
  start({.refuse_every = 3});
  const cuda::Stream stream = make_stream();
  const uint64_t address = allocate(64);
  std::byte* const host = pin(64);
  int refused = 0;
  for (int i = 0; i < 9; ++i) {
    const int result = driver_.copy_to_device(address, host, 64, stream);
    if (result == kSuccess) continue;
    EXPECT_EQ(result, cuda::kOutOfMemory);
    ++refused;
  }
  EXPECT_EQ(refused, 3);
  EXPECT_EQ(driver_.copy_to_host(host, address, 64, stream), kSuccess);
  destroy(stream);
  EXPECT_EQ(driver_.free(address), kSuccess);
  EXPECT_EQ(driver_.free_host(host), kSuccess);
}

// Each entry of the seam, and of what comes next.
TEST_F(FakeFaults, can_come_at_every_call) {
  constexpr int kSystemNotReady = 802;
  cuda::Stream stream = make_stream();
  uint64_t address = allocate(4096);
  std::byte* const host = pin(4096);
  cuda::Event event = nullptr;
  ASSERT_EQ(driver_.make_event(&event, 0), kSuccess);
  std::map<std::string, std::function<int()>> calls;
#define CALL(symbol, ...) calls[symbol] = [&] { return __VA_ARGS__; }
  int value = 0;
  unsigned flags = 0;
  float elapsed_ms = 0;
  char name[8];
  size_t bytes = 0;
  uint64_t from = reinterpret_cast<uint64_t>(host);
  size_t one = 8;
  size_t first = 0;
  cuda::CopyAttributes attributes;
  unsigned long long handle = 0;
  void* memory = nullptr;
  cuda::Context context = nullptr;
  cuda::Module module = nullptr;
  cuda::Function function = nullptr;
  cuda::Graph graph = nullptr;
  cuda::GraphExec exec = nullptr;
  cuda::AllocationProperties properties;
  cuda::MemoryAccess access;
  CALL("cuInit", driver_.init(0));
  CALL("cuDriverGetVersion", driver_.driver_version(&value));
  CALL("cuDeviceGetCount", driver_.device_count(&value));
  CALL("cuDeviceGet", driver_.device(&value, 0));
  CALL("cuDeviceGetName", driver_.device_name(name, 8, 0));
  CALL("cuDeviceGetAttribute", driver_.device_attribute(&value, 75, 0));
  CALL("cuDevicePrimaryCtxRetain", driver_.retain_context(&context, 0));
  CALL("cuDevicePrimaryCtxRelease_v2", driver_.release_context(0));
  CALL("cuCtxSetCurrent", driver_.use_context(context_));
  CALL("cuDevicePrimaryCtxGetState", driver_.context_state(0, &flags, &value));
  CALL("cuCtxPushCurrent_v2", driver_.push_context(context_));
  CALL("cuCtxPopCurrent_v2", driver_.pop_context(&context));
  CALL("cuModuleLoadData", driver_.load_module(&module, host));
  CALL("cuModuleUnload", driver_.unload_module(module));
  CALL("cuModuleGetFunction", driver_.find_function(&function, module, "x"));
  CALL("cuFuncSetAttribute", driver_.set_function_attribute(function, 8, 0));
  CALL("cuLaunchKernel", driver_.launch(function, 1, 1, 1, 128, 1, 1, 0, stream, nullptr, nullptr));
  CALL("cuMemAlloc_v2", driver_.allocate(&address, 64));
  CALL("cuMemFree_v2", driver_.free(address));
  CALL("cuMemHostAlloc", driver_.allocate_host(&memory, 64, 0));
  CALL("cuMemFreeHost", driver_.free_host(host));
  CALL("cuMemHostRegister_v2", driver_.register_host(name, 8, 0));
  CALL("cuMemHostUnregister", driver_.unregister_host(name));
  CALL("cuMemHostGetDevicePointer_v2", driver_.host_address(&address, host, 0));
  CALL("cuMemcpyHtoDAsync_v2", driver_.copy_to_device(address, host, 8, stream));
  CALL("cuMemcpyDtoHAsync_v2", driver_.copy_to_host(host, address, 8, stream));
  CALL("cuMemcpyDtoDAsync_v2", driver_.copy_on_device(address, address + 8, 8, stream));
  CALL("cuMemcpyBatchAsync_v2",
       driver_.copy_batch(&address, &from, &one, 1, &attributes, &first, 1, stream));
  CALL("cuMemsetD8Async", driver_.fill(address, 0, 8, stream));
  CALL("cuStreamCreate", driver_.make_stream(&stream, 1));
  CALL("cuStreamDestroy_v2", driver_.destroy_stream(stream));
  CALL("cuStreamSynchronize", driver_.wait_for_stream(stream));
  CALL("cuStreamWaitEvent", driver_.stream_wait_event(stream, event, 0));
  CALL("cuStreamWaitValue64_v2", driver_.stream_wait_value(stream, address, 0, 0));
  CALL("cuStreamIsCapturing", driver_.capture_state(stream, &value));
  CALL("cuThreadExchangeStreamCaptureMode", driver_.exchange_capture_mode(&value));
  CALL("cuEventCreate", driver_.make_event(&event, 0));
  CALL("cuEventDestroy_v2", driver_.destroy_event(event));
  CALL("cuEventRecord", driver_.record_event(event, stream));
  CALL("cuEventQuery", driver_.event_done(event));
  CALL("cuEventSynchronize", driver_.wait_for_event(event));
  CALL("cuEventElapsedTime", driver_.elapsed_ms(&elapsed_ms, event, event));
  CALL("cuStreamQuery", later_.stream_done(stream));
  CALL("cuStreamWriteValue64_v2", later_.write_value(stream, address, 0, 0));
  CALL("cuLaunchHostFunc", later_.call_host(
                               stream, [](void*) {}, nullptr));
  CALL("cuStreamBeginCapture_v2", later_.begin_capture(stream, 0));
  CALL("cuStreamEndCapture", later_.end_capture(stream, &graph));
  CALL("cuGraphInstantiateWithFlags", later_.instantiate_graph(&exec, graph, 0));
  CALL("cuGraphLaunch", later_.launch_graph(exec, stream));
  CALL("cuGraphDestroy", later_.destroy_graph(graph));
  CALL("cuGraphExecDestroy", later_.destroy_graph_exec(exec));
  CALL("cuFlushGPUDirectRDMAWrites", driver_.flush_writes(0, 100));
  CALL("cuMemGetHandleForAddressRange", driver_.range_handle(&value, address, 4096, 1, 0));
  CALL("cuMemGetAddressRange_v2", driver_.address_range(nullptr, &bytes, address));
  CALL("cuPointerGetAttributes", driver_.pointer_attributes(0, nullptr, nullptr, address));
  CALL("cuMemGetAllocationGranularity", later_.granularity(&bytes, &properties, 0));
  CALL("cuMemCreate", later_.create_memory(&handle, 2 << 20, &properties, 0));
  CALL("cuMemRelease", later_.release_memory(handle));
  CALL("cuMemAddressReserve", later_.reserve_addresses(&address, 2 << 20, 0, 0, 0));
  CALL("cuMemAddressFree", later_.free_addresses(address, 2 << 20));
  CALL("cuMemMap", later_.map_memory(address, 2 << 20, 0, handle, 0));
  CALL("cuMemUnmap", later_.unmap_memory(address, 2 << 20));
  CALL("cuMemSetAccess", later_.set_access(address, 2 << 20, &access, 1));
#undef CALL
#define FARPAGE_CUDA_ENTRY(member, symbol, ...)              \
  if (std::string(#symbol).find("cuGetError") != 0) {        \
    ASSERT_EQ(calls.count(#symbol), 1u) << #symbol;          \
    fake_->fail_call(#symbol, 1, kSystemNotReady);           \
    EXPECT_EQ(calls[#symbol](), kSystemNotReady) << #symbol; \
  }
#include "tests/transport/cuda/fake/later_entries.inc"
#include "transport/cuda/driver_entries.inc"
#undef FARPAGE_CUDA_ENTRY
  // None of them has done anything.
  const cuda::FakeCounts as_before{
      .contexts = 1, .streams = 1, .events = 1, .device_ranges = 1, .host_ranges = 1};
  EXPECT_EQ(fake_->live(), as_before);
  destroy(stream);
  EXPECT_EQ(driver_.destroy_event(event), kSuccess);
  EXPECT_EQ(driver_.free(address), kSuccess);
  EXPECT_EQ(driver_.free_host(host), kSuccess);
}

TEST_F(FakeFaults, that_are_sticky_end_the_context) {
  const cuda::Stream stream = make_stream();
  const uint64_t device = allocate(64);
  cuda::Event event = nullptr;
  ASSERT_EQ(driver_.make_event(&event, 0), kSuccess);
  fake_->fail_call("cuMemsetD8Async", 1, kIllegalAddress);
  EXPECT_EQ(driver_.fill(device, 0, 64, stream), kIllegalAddress);
  uint64_t more = 0;
  EXPECT_EQ(driver_.fill(device, 0, 64, stream), kIllegalAddress);
  EXPECT_EQ(driver_.allocate(&more, 64), kIllegalAddress);
  EXPECT_EQ(driver_.free(device), kIllegalAddress);
  EXPECT_EQ(driver_.wait_for_stream(stream), kIllegalAddress);
  EXPECT_EQ(driver_.event_done(event), kIllegalAddress);
  int count = 0;
  EXPECT_EQ(driver_.device_count(&count), kSuccess);
  leave_everything();
}

// Nobody waits for ever: what is enqueued is dropped, and those who wait get the error.
TEST_F(FakeFaults, of_the_device_end_what_is_under_way) {
  const cuda::Stream stream = make_stream();
  const uint64_t device = allocate(64);
  bool called = false;
  ASSERT_EQ(driver_.fill(device, 0, 64, stream), kSuccess);
  ASSERT_EQ(driver_.stream_wait_value(stream, device, 1, cuda::kWaitEqual), kSuccess);
  const auto function = [](void* argument) { *static_cast<bool*>(argument) = true; };
  ASSERT_EQ(later_.call_host(stream, function, &called), kSuccess);
  fake_->break_context(context_, cuda::kLaunchFailed);
  EXPECT_EQ(driver_.wait_for_stream(stream), cuda::kLaunchFailed);
  EXPECT_EQ(driver_.destroy_stream(stream), cuda::kLaunchFailed);
  while (fake_->live().operations > 0) std::this_thread::yield();
  EXPECT_FALSE(called);
  leave_everything();
}

TEST_F(FakeFaults, of_one_device_leave_the_other_alone) {
  start({.devices = 2});
  cuda::Context other = nullptr;
  ASSERT_EQ(driver_.retain_context(&other, 1), kSuccess);
  fake_->break_context(context_, kIllegalAddress);
  uint64_t device = 0;
  EXPECT_EQ(driver_.allocate(&device, 64), kIllegalAddress);
  ASSERT_EQ(driver_.use_context(other), kSuccess);
  EXPECT_EQ(driver_.allocate(&device, 64), kSuccess);
  EXPECT_EQ(driver_.free(device), kSuccess);
  EXPECT_EQ(driver_.release_context(1), kSuccess);
}

TEST_F(FakeFaults, of_a_host_without_a_device_or_an_initialization) {
  fake_->reset({.devices = 0});
  int count = -1;
  EXPECT_EQ(driver_.device_count(&count), cuda::kNotInitialized);
  EXPECT_EQ(driver_.init(0), cuda::kNoDevice);
  fake_->reset({});
  EXPECT_EQ(driver_.init(0), kSuccess);
  int device = 0;
  EXPECT_EQ(driver_.device(&device, 1), cuda::kInvalidDevice);
  EXPECT_EQ(driver_.use_context(nullptr), kSuccess);
  uint64_t address = 0;
  EXPECT_EQ(driver_.allocate(&address, 64), cuda::kInvalidContext);
  leave_everything();
}

TEST_F(FakeFaults, have_names_and_texts) {
  EXPECT_EQ(cuda::driver_error(driver_, kIllegalAddress, "cuMemFree"),
            "cuMemFree: CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered");
  EXPECT_EQ(cuda::driver_error(driver_, 12345, "cuMemFree"), "cuMemFree: error 12345");
}

}  // namespace
}  // namespace farpage
