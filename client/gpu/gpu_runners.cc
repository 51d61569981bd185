#include "client/gpu/gpu_runners.h"

#include <fmt/format.h>

#include <utility>

#include "base/log.h"
#include "client/gpu/paged_region.h"
#include "transport/cuda/memory/device_memory.h"

namespace farpage {
namespace {

MemoryPlace place_of(const cuda::GpuContext& context) {
  return {MemoryKind::kCuda, static_cast<int16_t>(context.device())};
}

}  // namespace

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

Result<GpuRunner*> GpuRunners::start_runner(
    const std::shared_ptr<const cuda::GpuContext>& context) {
  const int device = context->device();
  if (device >= kMostDevices) {
    return fail(Code::kInvalid, fmt::format("this is memory of cuda:{}, and {} GPUs are the most",
                                            device, kMostDevices));
  }
  const auto number = static_cast<size_t>(device);
  if (owned_[number] == nullptr) {
    auto runner = GpuRunner::start(client_, runner_options_, writes_, context, options_);
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
  return owned_[number].get();
}

Result<Region> GpuRunners::register_memory(uint64_t address, uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (auto started = start_driver(); !started) return tl::unexpected(started.error());
  const auto context = cuda::context_of_memory(*driver_, address, bytes);
  if (!context) return tl::unexpected(context.error());
  if (auto started = start_runner(*context); !started) return tl::unexpected(started.error());
  // The address is the device's: nothing here follows it.
  return Region({reinterpret_cast<std::byte*>(address), bytes, place_of(**context)}, Access::kLocal,
                0, nullptr);
}

// Without kernels the blocks serve too.
Result<Region> GpuRunners::register_blocks(const cuda::GpuBlocks& blocks) {
  const std::lock_guard lock(mutex_);
  if (auto started = start_driver(); !started) return tl::unexpected(started.error());
  auto memory = cuda::PagedMemory::make(*driver_, blocks);
  if (!memory) return tl::unexpected(memory.error());
  const cuda::GpuContext& context = *(*memory)->context();
  const uint64_t block_bytes = (*memory)->block_bytes();
  if (block_bytes > client_.page_bytes()) {
    return fail(Code::kInvalid,
                fmt::format("a block has {} bytes, and the nodes' pages {}: start the nodes with "
                            "longer pages (--page-bytes)",
                            block_bytes, client_.page_bytes()));
  }
  const auto runner = start_runner((*memory)->context());
  if (!runner) return tl::unexpected(runner.error());
  const MemoryRange range = {(*memory)->data(), (*memory)->bytes(), place_of(context)};
  auto paged = std::make_unique<PagedRegion>(std::move(*memory));
  use_kernels(*paged);
  const auto local_key = reinterpret_cast<uint64_t>(paged.get());
  return Region(range, Access::kLocal, local_key, std::move(paged));
}

void GpuRunners::use_kernels(PagedRegion& paged) const {
  const auto warn = [&](const char* what, const Error& why) {
    log_warning(
        fmt::format("cuda:{} {}: {}", paged.memory().context()->device(), what, why.message));
  };
  if (options_.check_copies) {
    if (const auto used = paged.scatter_by_kernel(); !used) {
      warn(
          "takes pages to their blocks by copies of each piece, and does not check them there "
          "(gpu.check_copies)",
          used.error());
    }
  }
  if (const auto used = paged.gather_by_kernel(); !used) {
    warn("takes pages from their blocks by copies of each piece", used.error());
  }
}

GpuRunner* GpuRunners::of(int device) const {
  if (device < 0 || device >= kMostDevices) return nullptr;
  return runners_[static_cast<size_t>(device)].load(std::memory_order_acquire);
}

}  // namespace farpage
