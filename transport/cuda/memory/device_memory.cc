#include "transport/cuda/memory/device_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

namespace farpage::cuda {
namespace {

struct Seen {
  unsigned type = 0;
  int device = -1;
  Context context = nullptr;  // null also for memory that is mapped, or of a pool
};

std::string name(uint64_t address, uint64_t bytes) {
  return fmt::format("the {} bytes at {:#x}", bytes, address);
}

auto refuse(const std::string& sentence) {
  return fail(Code::kInvalid, sentence);
}

auto failed(const Driver& driver, int result, const char* call) {
  return fail(Code::kUnavailable, driver_error(driver, result, call));
}

// Under some current context.
Result<Seen> look(const Driver& driver, uint64_t address) {
  Seen seen;
  std::array attributes = {kPointerMemoryType, kPointerDevice, kPointerContext};
  std::array<void*, 3> values = {&seen.type, &seen.device, &seen.context};
  const int result =
      driver.pointer_attributes(attributes.size(), attributes.data(), values.data(), address);
  if (result != kSuccess) return failed(driver, result, "cuPointerGetAttributes");
  return seen;
}

Result<Seen> look_from(const Driver& driver, int device, uint64_t address) {
  const auto context = GpuContext::retain(driver, device);
  if (!context) return tl::unexpected(context.error());
  const CurrentContext current(**context);
  return look(driver, address);
}

// By the context of a device that this process uses already: to make one costs hundreds of MiB.
Result<Seen> look_from_any_device(const Driver& driver, uint64_t address) {
  int devices = 0;
  if (const int result = driver.device_count(&devices); result != kSuccess) {
    return failed(driver, result, "cuDeviceGetCount");
  }
  Result<Seen> seen = Seen{};
  for (int device = 0; device < devices; ++device) {
    unsigned flags = 0;
    int is_active = 0;
    const int result = driver.context_state(device, &flags, &is_active);
    if (result != kSuccess) return failed(driver, result, "cuDevicePrimaryCtxGetState");
    if (is_active == 0) continue;
    seen = look_from(driver, device, address);
    if (seen) break;  // a context that an error has ended answers nothing
  }
  return seen;
}

// How many of the bytes are one device's memory without a gap, from the first on.
Result<uint64_t> whole_bytes(const Driver& driver, int device, uint64_t address, uint64_t bytes) {
  uint64_t at = address;
  while (at - address < bytes) {
    const auto seen = look(driver, at);
    if (!seen) return tl::unexpected(seen.error());
    if (seen->type != kMemoryTypeDevice || seen->device != device) break;
    uint64_t base = 0;
    size_t length = 0;
    const int result = driver.address_range(&base, &length, at);
    // Addresses are reserved there, and nothing is mapped.
    if (result == kInvalidValue || result == kNotFound) break;
    if (result != kSuccess) return failed(driver, result, "cuMemGetAddressRange");
    if (base + length <= at) break;
    at = base + length;
  }
  return std::min(at - address, bytes);
}

}  // namespace

Result<std::shared_ptr<const GpuContext>> context_of_memory(const Driver& driver, uint64_t address,
                                                            uint64_t bytes) {
  const std::string range = name(address, bytes);
  if (bytes == 0 || bytes > UINT64_MAX - address) return refuse(range + " are no memory");
  const auto seen = look_from_any_device(driver, address);
  if (!seen) return tl::unexpected(seen.error());
  if (seen->type == kMemoryTypeHost) {
    return refuse(range + " are host memory: register them as such");
  }
  if (seen->type != kMemoryTypeDevice) {
    return refuse(range +
                  " are no memory that CUDA knows in this process: give memory of a GPU, and "
                  "register host memory as such");
  }
  auto context = GpuContext::retain(driver, seen->device);
  if (!context) return context;
  if (seen->context != nullptr && seen->context != (*context)->get()) {
    return refuse(
        fmt::format("{} are memory of a context of their own: allocate them under the "
                    "primary context of cuda:{}, as CUDA's runtime does",
                    range, seen->device));
  }
  const CurrentContext current(**context);
  const auto whole = whole_bytes(driver, seen->device, address, bytes);
  if (!whole) return tl::unexpected(whole.error());
  if (*whole < bytes) {
    return refuse(
        fmt::format("of {} only the first {} are mapped memory of cuda:{}: register what "
                    "is mapped, each device's by itself",
                    range, *whole, seen->device));
  }
  return context;
}

}  // namespace farpage::cuda
