#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/status.h"
#include "client/gpu/gpu_driver.h"
#include "client/gpu/gpu_options.h"
#include "client/gpu/stream_fence.h"
#include "client/runner/runner_options.h"
#include "tier/client.h"
#include "transport/cuda/recorded_event.h"

namespace farpage {

// A client's threads for fetches into memory of GPUs, and puts from there: one for each GPU whose
// memory was registered. CUDA's driver is loaded then, and not before. Any thread; the client and
// `writes` outlive it.
class GpuRunners {
 public:
  // `library`: the driver.
  GpuRunners(Client& client, WriteRunner& writes, const RunnerOptions& runner,
             const GpuOptions& options, std::string library = "libcuda.so.1");

  Result<Region> register_memory(uint64_t address, uint64_t bytes);
  Result<Region> register_blocks(const cuda::GpuBlocks& blocks);
  Result<std::shared_ptr<StreamFence>> make_fence(int device, uint32_t most_pages);
  // What is on a stream of a GPU whose memory was registered.
  Result<std::shared_ptr<const cuda::RecordedEvent>> record(int device, cuda::Stream stream);
  // Null: no memory of that GPU was registered.
  GpuRunner* of(int device) const;

  template <typename Visit>
  void for_each(const Visit& visit) const {
    for (const auto& runner : runners_) {
      if (GpuRunner* const made = runner.load(std::memory_order_acquire)) visit(*made);
    }
  }

 private:
  static constexpr int kMostDevices = 64;

  Result<void> start_driver();
  void use_kernels(PagedRegion& paged) const;
  // Of the context's device, which is started now if it is not yet.
  Result<GpuRunner*> start_runner(const std::shared_ptr<const cuda::GpuContext>& context);

  Client& client_;
  WriteRunner& writes_;
  const RunnerOptions runner_options_;
  const GpuOptions options_;
  const std::string library_;
  std::mutex mutex_;  // of what registering makes
  std::optional<cuda::Driver> driver_;
  std::array<std::unique_ptr<GpuRunner>, kMostDevices> owned_;
  std::array<std::atomic<GpuRunner*>, kMostDevices> runners_ = {};
};

}  // namespace farpage
