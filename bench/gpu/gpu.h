#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "transport/cuda/driver.h"
#include "transport/cuda/kernels/page_batch.h"

namespace farpage::gpu_bench {

// The first GPU, with the kernels loaded. Everything that goes wrong is a std::runtime_error with a
// sentence. One thread.
class Gpu {
 public:
  explicit Gpu(const void* kernels);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  const cuda::Driver& driver() const { return driver_; }
  void check(int result, const char* what) const;
  int attribute(int number) const;
  std::string description() const;
  int processors() const { return processors_; }
  void use_on_this_thread() const { check(driver_.use_context(context_), "cuCtxSetCurrent"); }

  // A kernel that may take so many bytes of shared memory.
  cuda::Function function(const char* kernel, unsigned shared_bytes) const;

 private:
  cuda::Driver driver_;
  int device_ = 0;
  int processors_ = 0;
  cuda::Context context_ = nullptr;
  cuda::Module module_ = nullptr;
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

// Kernels of pages take these; see variants.cu.
struct PageArguments {
  uint64_t pages = 0;
  uint32_t count = 0;
  cuda::PagedLayout layout;
  cuda::PageFindings out;
};

// Sets the shared memory's limit of the kernel, too.
void launch(const Gpu& gpu, const Stream& stream, const Launch& how, std::vector<void*> arguments);
void launch_pages(const Gpu& gpu, const Stream& stream, const Launch& how, PageArguments arguments);

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
