#include "transport/cuda/memory/landing_memory.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/units.h"

namespace farpage::cuda {
namespace {

constexpr int kOrderedForOwner = 100;
constexpr int kFlushByHost = 1;
constexpr int kFlushInStream = 2;
constexpr uint64_t kGpuPage = 64 * kKiB;  // of which NVIDIA's kernel driver tells a NIC

// 0 also where the driver knows no such attribute.
int attribute_of(const Driver& driver, int device, int attribute) {
  int value = 0;
  return driver.device_attribute(&value, attribute, device) == kSuccess ? value : 0;
}

}  // namespace

Result<WriteFlush> write_flush(const Driver& driver, int device) {
  if (attribute_of(driver, device, kNicsReach) == 0) {
    return fail(
        Code::kUnavailable,
        fmt::format("network cards do not reach the memory of cuda:{} (GPUDirect RDMA)", device));
  }
  if (attribute_of(driver, device, kWritesOrdering) >= kOrderedForOwner) return WriteFlush::kNone;
  const int options = attribute_of(driver, device, kFlushOptions);
  if ((options & kFlushByHost) != 0 && driver.flush_writes != nullptr) return WriteFlush::kByHost;
  if ((options & kFlushInStream) != 0) return WriteFlush::kInStream;
  return fail(
      Code::kUnavailable,
      fmt::format("cuda:{} does not order what network cards write, and has no flush for it",
                  device));
}

Result<LandingMemory> LandingMemory::make(std::shared_ptr<const GpuContext> context, uint64_t bytes,
                                          LandingWay way) {
  const auto page = std::max(static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)), kGpuPage);
  LandingMemory made(std::move(context), round_up(bytes, page));
  const CurrentContext current(*made.context_);
  if (auto allocated = made.allocate(page); !allocated) return tl::unexpected(allocated.error());
  if (way == LandingWay::kDmaBuf) {
    if (auto told = made.export_dma_buf(); !told) return tl::unexpected(told.error());
  }
  return made;
}

Result<void> LandingMemory::allocate(uint64_t page) {
  const Driver& driver = context_->driver();
  if (const int result = driver.allocate(&allocated_, bytes_ + page); result != kSuccess) {
    allocated_ = 0;
    return fail(Code::kExhausted,
                driver_error(driver, result,
                             fmt::format("cuda:{} has no {} where pages could land",
                                         context_->device(), format_bytes(bytes_))));
  }
  address_ = round_up(allocated_, page);
  return {};
}

Result<void> LandingMemory::export_dma_buf() {
  const Driver& driver = context_->driver();
  if (driver.range_handle == nullptr || attribute_of(driver, context_->device(), kDmaBufs) == 0) {
    return fail(Code::kUnavailable,
                fmt::format("CUDA's driver has no dma-bufs of cuda:{}: they need Linux 5.12 and "
                            "NVIDIA's open kernel modules",
                            context_->device()));
  }
  int descriptor = -1;
  const int result = driver.range_handle(&descriptor, address_, bytes_, kDmaBufDescriptor, 0);
  if (result != kSuccess) {
    return fail(Code::kUnavailable, driver_error(driver, result, "cuMemGetHandleForAddressRange"));
  }
  dma_buf_ = UniqueFd(descriptor);
  return {};
}

LandingMemory::LandingMemory(LandingMemory&& other) noexcept
    : context_(std::move(other.context_)),
      bytes_(other.bytes_),
      allocated_(std::exchange(other.allocated_, 0)),
      address_(other.address_),
      dma_buf_(std::move(other.dma_buf_)) {}

LandingMemory::~LandingMemory() {
  if (allocated_ == 0) return;
  const CurrentContext current(*context_);
  context_->driver().free(allocated_);
}

MemoryRange LandingMemory::range() const {
  return {reinterpret_cast<std::byte*>(address_),
          bytes_,
          {MemoryKind::kCuda, static_cast<int16_t>(context_->device())},
          dma_buf_.get()};
}

}  // namespace farpage::cuda
