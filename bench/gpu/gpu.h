#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "transport/cuda/driver.h"
#include "transport/cuda/page_kernels.h"

namespace farpage::gpu_bench {

// The first GPU, with the library's kernels and the baselines loaded. Everything that goes wrong is
// a std::runtime_error with a sentence. One thread.
class Gpu {
 public:
  Gpu();
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  const cuda::Driver& driver() const { return driver_; }
  const cuda::PageKernels& kernels() const { return *kernels_; }
  void check(int result, const char* what) const;
  int attribute(int number) const;
  std::string description() const;
  int processors() const { return processors_; }
  void use_on_this_thread() const { check(driver_.use_context(context_), "cuCtxSetCurrent"); }

  // A baseline that may take so many bytes of shared memory.
  cuda::Function function(const char* kernel, unsigned shared_bytes) const;

 private:
  cuda::Driver driver_;
  int device_ = 0;
  int processors_ = 0;
  cuda::Context context_ = nullptr;
  std::optional<cuda::PageKernels> kernels_;
  cuda::Module baselines_ = nullptr;
  struct Found {
    cuda::Function function = nullptr;
    unsigned shared_bytes = 48 * 1024;
  };
  mutable std::map<std::string, Found, std::less<>> functions_;
};

class Stream {
 public:
  explicit Stream(const Gpu& gpu);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  cuda::Stream get() const { return stream_; }
  void wait() const;

 private:
  const Gpu& gpu_;
  cuda::Stream stream_ = nullptr;
};

class Event {
 public:
  explicit Event(const Gpu& gpu);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  cuda::Event get() const { return event_; }
  void record(const Stream& stream) const;
  void wait() const;
  bool done() const;

 private:
  const Gpu& gpu_;
  cuda::Event event_ = nullptr;
};

double elapsed_us(const Gpu& gpu, const Event& from, const Event& to);

// Memory of the GPU.
class DeviceMemory {
 public:
  DeviceMemory(const Gpu& gpu, uint64_t bytes);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  uint64_t at(uint64_t offset = 0) const { return address_ + offset; }
  void put(const void* data, uint64_t bytes, uint64_t offset = 0) const;
  void get(void* data, uint64_t bytes, uint64_t offset = 0) const;
  void fill(unsigned char value) const;
  uint64_t bytes() const { return bytes_; }

 private:
  const Gpu& gpu_;
  uint64_t address_ = 0;
  uint64_t bytes_;
};

// Host memory that the GPU reads and writes.
class PinnedMemory {
 public:
  PinnedMemory(const Gpu& gpu, uint64_t bytes);
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;
  std::byte* data() const { return data_; }
  uint64_t device_address() const { return device_address_; }

 private:
  const Gpu& gpu_;
  std::byte* data_ = nullptr;
  uint64_t device_address_ = 0;
};

struct Launch {
  const char* kernel;
  unsigned blocks = 1;
  unsigned threads = 1;
  unsigned shared_bytes = 0;
};

// Sets the shared memory's limit of the baseline, too.
void launch(const Gpu& gpu, const Stream& stream, const Launch& how, std::vector<void*> arguments);
// A scatter without a check, as baselines.cu has it.
enum class Scatter { kThroughShared, kByLoads };
void scatter(const Gpu& gpu, const Stream& stream, Scatter how, cuda::PageBatch batch);
// Throws what the library says of a kernel that did not start.
void expect_started(const Result<void>& result);

struct Times {
  double median_us = 0;
  double least_us = 0;
  double most_us = 0;
};
Times summary(std::vector<double> times_us);
// Of `work` on the stream, by events, after one round that does not count.
Times time_on_stream(const Gpu& gpu, const Stream& stream, int rounds,
                     const std::function<void()>& work);
double now_us();

}  // namespace farpage::gpu_bench
