#include "client/gpu/gpu_runners.h"

#include <fmt/format.h>

#include <utility>

#include "transport/cuda/device_memory.h"

namespace farpage {

GpuRunners::GpuRunners(Client& client, WriteRunner& writes, const RunnerOptions& runner,
                       const GpuOptions& options, std::string library)
    : client_(client),
      writes_(writes),
      runner_options_(runner),
      options_(options),
      library_(std::move(library)) {}

Result<void> GpuRunners::start_driver() {
  if (driver_) return {};
  auto driver = cuda::start_driver(library_.c_str());
  if (!driver) return tl::unexpected(driver.error());
  driver_ = *driver;
  return {};
}

Result<std::shared_ptr<StreamFence>> GpuRunners::make_fence(int device, uint32_t most_pages) {
  const std::lock_guard lock(mutex_);
  if (auto started = start_driver(); !started) return tl::unexpected(started.error());
  const auto context = cuda::GpuContext::retain(*driver_, device);
  if (!context) return tl::unexpected(context.error());
  return StreamFence::make(*context, most_pages);
}

Result<std::shared_ptr<const cuda::RecordedEvent>> GpuRunners::record(int device,
                                                                      cuda::Stream stream) {
  return cuda::RecordedEvent::record(of(device)->driver().context(), stream);
}

Result<Region> GpuRunners::register_memory(uint64_t address, uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (auto started = start_driver(); !started) return tl::unexpected(started.error());
  const auto context = cuda::context_of_memory(*driver_, address, bytes);
  if (!context) return tl::unexpected(context.error());
  const int device = (*context)->device();
  if (device >= kMostDevices) {
    return fail(Code::kInvalid, fmt::format("this is memory of cuda:{}, and {} GPUs are the most",
                                            device, kMostDevices));
  }
  const auto number = static_cast<size_t>(device);
  if (owned_[number] == nullptr) {
    auto runner = GpuRunner::start(client_, runner_options_, writes_, *context, options_);
    if (!runner) return tl::unexpected(runner.error());
    owned_[number] = std::move(*runner);
    runners_[number].store(owned_[number].get(), std::memory_order_release);
  }
  if (owned_[number]->driver().is_broken()) {
    return fail(Code::kUnavailable,
                fmt::format("an error has ended this client's use of cuda:{}, and the log says "
                            "which: open a new client for that GPU",
                            device));
  }
  const MemoryPlace place = {MemoryKind::kCuda, static_cast<int16_t>(device)};
  // The address is the device's: nothing here follows it.
  return Region({reinterpret_cast<std::byte*>(address), bytes, place}, Access::kLocal, 0, nullptr);
}

GpuRunner* GpuRunners::of(int device) const {
  if (device < 0 || device >= kMostDevices) return nullptr;
  return runners_[static_cast<size_t>(device)].load(std::memory_order_acquire);
}

}  // namespace farpage
