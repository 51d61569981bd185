#include "bench/gpu/gpu.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <stdexcept>

extern "C" const unsigned char kFarpageBaselines[];

namespace farpage::gpu_bench {

Gpu::Gpu() {
  Result<cuda::Driver> driver = cuda::load_driver();
  if (!driver) throw std::runtime_error(driver.error().message);
  driver_ = *driver;
  check(driver_.init(0), "cuInit");
  int count = 0;
  check(driver_.device_count(&count), "cuDeviceGetCount");
  if (count == 0) throw std::runtime_error("the driver knows no GPU");
  check(driver_.device(&device_, 0), "cuDeviceGet");
  processors_ = attribute(16);
  check(driver_.retain_context(&context_, device_), "cuDevicePrimaryCtxRetain");
  use_on_this_thread();
  const auto kernels = cuda::PageKernels::load(driver_, device_);
  if (!kernels) throw std::runtime_error(kernels.error().message);
  kernels_ = *kernels;
  check(driver_.load_module(&baselines_, kFarpageBaselines), "cuModuleLoadData");
}

Gpu::~Gpu() {
  driver_.unload_module(baselines_);
  kernels_->unload();
  driver_.release_context(device_);
}

void Gpu::check(int result, const char* what) const {
  if (result != cuda::kSuccess) {
    throw std::runtime_error(cuda::driver_error(driver_, result, what));
  }
}

int Gpu::attribute(int number) const {
  int value = -1;
  return driver_.device_attribute(&value, number, device_) == cuda::kSuccess ? value : -1;
}

std::string Gpu::description() const {
  struct Named {
    const char* name;
    int number;
  };
  constexpr Named kAttributes[] = {{"compute_major", 75},
                                   {"compute_minor", 76},
                                   {"multiprocessors", 16},
                                   {"clock_khz", 13},
                                   {"memory_clock_khz", 36},
                                   {"memory_bus_bits", 37},
                                   {"l2_bytes", 38},
                                   {"shared_bytes_per_block_optin", 97},
                                   {"shared_bytes_per_multiprocessor", 81},
                                   {"copy_engines", 40},
                                   {"stream_wait_value_64", 122},
                                   {"can_flush_remote_writes", 98},
                                   {"host_register", 99},
                                   {"read_only_host_register", 113},
                                   {"dma_buf", 124},
                                   {"gpu_direct_rdma", 116},
                                   {"rdma_flush_options", 117},
                                   {"rdma_writes_ordering", 118},
                                   {"rdma_with_vmm", 110},
                                   {"pageable_memory_access", 88}};
  std::array<char, 256> name{};
  driver_.device_name(name.data(), name.size(), device_);
  int version = 0;
  driver_.driver_version(&version);
  std::string text = std::string(name.data()) + ", driver API " + std::to_string(version);
  for (const Named& it : kAttributes) {
    text += std::string("\n  ") + it.name + " " + std::to_string(attribute(it.number));
  }
  return text;
}

cuda::Function Gpu::function(const char* kernel, unsigned shared_bytes) const {
  auto found = functions_.find(kernel);
  if (found == functions_.end()) {
    found = functions_.emplace(kernel, Found()).first;
    check(driver_.find_function(&found->second.function, baselines_, kernel), kernel);
  }
  Found& it = found->second;
  if (shared_bytes > it.shared_bytes) {
    check(driver_.set_function_attribute(it.function, cuda::kMostDynamicSharedBytes,
                                         static_cast<int>(shared_bytes)),
          "cuFuncSetAttribute");
    it.shared_bytes = shared_bytes;
  }
  return it.function;
}

Stream::Stream(const Gpu& gpu) : gpu_(gpu) {
  gpu.check(gpu.driver().make_stream(&stream_, 1), "cuStreamCreate");
}
Stream::~Stream() {
  gpu_.driver().wait_for_stream(stream_);
  gpu_.driver().destroy_stream(stream_);
}
void Stream::wait() const {
  gpu_.check(gpu_.driver().wait_for_stream(stream_), "cuStreamSynchronize");
}

Event::Event(const Gpu& gpu) : gpu_(gpu) {
  gpu.check(gpu.driver().make_event(&event_, 0), "cuEventCreate");
}
Event::~Event() {
  gpu_.driver().destroy_event(event_);
}
void Event::record(const Stream& stream) const {
  gpu_.check(gpu_.driver().record_event(event_, stream.get()), "cuEventRecord");
}
void Event::wait() const {
  gpu_.check(gpu_.driver().wait_for_event(event_), "cuEventSynchronize");
}
bool Event::done() const {
  const int result = gpu_.driver().event_done(event_);
  if (result == cuda::kNotReady) return false;
  gpu_.check(result, "cuEventQuery");
  return true;
}

double elapsed_us(const Gpu& gpu, const Event& from, const Event& to) {
  float elapsed_ms = 0;
  gpu.check(gpu.driver().elapsed_ms(&elapsed_ms, from.get(), to.get()), "cuEventElapsedTime");
  return elapsed_ms * 1000.0;
}

DeviceMemory::DeviceMemory(const Gpu& gpu, uint64_t bytes) : gpu_(gpu), bytes_(bytes) {
  gpu.check(gpu.driver().allocate(&address_, bytes), "cuMemAlloc");
}
DeviceMemory::~DeviceMemory() {
  gpu_.driver().free(address_);
}
void DeviceMemory::put(const void* data, uint64_t bytes, uint64_t offset) const {
  const Stream stream(gpu_);
  gpu_.check(gpu_.driver().copy_to_device(at(offset), data, bytes, stream.get()), "cuMemcpyHtoD");
  stream.wait();
}
void DeviceMemory::get(void* data, uint64_t bytes, uint64_t offset) const {
  const Stream stream(gpu_);
  gpu_.check(gpu_.driver().copy_to_host(data, at(offset), bytes, stream.get()), "cuMemcpyDtoH");
  stream.wait();
}
void DeviceMemory::fill(unsigned char value) const {
  const Stream stream(gpu_);
  gpu_.check(gpu_.driver().fill(address_, value, bytes_, stream.get()), "cuMemsetD8");
  stream.wait();
}

PinnedMemory::PinnedMemory(const Gpu& gpu, uint64_t bytes) : gpu_(gpu) {
  void* made = nullptr;
  gpu.check(gpu.driver().allocate_host(&made, bytes, 3), "cuMemHostAlloc");
  data_ = static_cast<std::byte*>(made);
  gpu.check(gpu.driver().host_address(&device_address_, made, 0), "cuMemHostGetDevicePointer");
}
PinnedMemory::~PinnedMemory() {
  gpu_.driver().free_host(data_);
}

void launch(const Gpu& gpu, const Stream& stream, const Launch& how, std::vector<void*> arguments) {
  const cuda::Function function = gpu.function(how.kernel, how.shared_bytes);
  gpu.check(gpu.driver().launch(function, how.blocks, 1, 1, how.threads, 1, 1, how.shared_bytes,
                                stream.get(), arguments.data(), nullptr),
            how.kernel);
}

void scatter(const Gpu& gpu, const Stream& stream, Scatter how, cuda::PageBatch batch) {
  const bool shared = how == Scatter::kThroughShared;
  launch(gpu, stream,
         {shared ? "scatter_through_shared" : "scatter_by_loads", batch.count, cuda::kBlockThreads,
          shared ? batch.longest_bytes : 0},
         {&batch.items, &batch.count, &batch.layout, &batch.out});
}

void expect_started(const Result<void>& result) {
  if (!result) throw std::runtime_error(result.error().message);
}

Times summary(std::vector<double> times_us) {
  std::ranges::sort(times_us);
  return {times_us[times_us.size() / 2], times_us.front(), times_us.back()};
}

Times time_on_stream(const Gpu& gpu, const Stream& stream, int rounds,
                     const std::function<void()>& work) {
  const Event begin(gpu);
  const Event end(gpu);
  std::vector<double> times_us;
  for (int round = 0; round <= rounds; ++round) {
    begin.record(stream);
    work();
    end.record(stream);
    end.wait();
    if (round > 0) times_us.push_back(elapsed_us(gpu, begin, end));
  }
  return summary(times_us);
}

double now_us() {
  return std::chrono::duration<double, std::micro>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace farpage::gpu_bench
