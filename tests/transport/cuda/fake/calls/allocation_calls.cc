// CUDA Driver API, Memory Management: memory of the device, and of the host.

#include <algorithm>
#include <utility>

#include "tests/transport/cuda/fake/device/host_maps.h"
#include "tests/transport/cuda/fake/state.h"

namespace farpage::cuda {
namespace {

uint64_t number(const void* at) {
  return reinterpret_cast<uint64_t>(at);
}

// Takes the range away, if no stream uses it.
int give_up(const Call& call, const std::shared_ptr<Range>& range) {
  if (range->context != call.context) {
    return call.misused("the memory is of another context than the current one");
  }
  if (range->users > 0) return call.misused("a stream still uses the memory");
  std::erase(state().ranges, range);
  return kSuccess;
}

std::shared_ptr<Range> host_range_at(const void* memory, Kind kind) {
  for (const auto& range : state().ranges) {
    if (range->kind == kind && range->memory == memory) return range;
  }
  return nullptr;
}

}  // namespace

extern "C" {

// "If bytesize is 0, cuMemAlloc() returns CUDA_ERROR_INVALID_VALUE." The memory is not cleared: it
// is full of 0xA5.
int cuMemAlloc_v2(uint64_t* address, size_t bytes) {
  const Call call("cuMemAlloc_v2", Needs::kContext);
  if (call.result != kSuccess) return call.result;
  if (bytes == 0) return call.misused("no byte is asked for");
  const int device = call.context->device;
  const uint64_t limit = state().settings.device_bytes;
  if (bytes > limit || device_bytes_in_use(device) > limit - bytes) return kOutOfMemory;
  auto made = std::make_shared<Range>();
  Mapping mapping{bytes, Physical::make(bytes, device), true, true};
  if (mapping.physical == nullptr) return kOutOfMemory;
  made->context = call.context;
  made->device = device;
  made->bytes = bytes;
  made->addresses = std::make_unique<Reservation>(bytes);
  made->reached = std::make_unique<Reservation>(bytes);
  made->base = number(made->addresses->at());
  made->memory = made->reached->at();
  if (!made->map(0, std::move(mapping))) return kOutOfMemory;
  std::fill_n(made->memory, bytes, std::byte{0xA5});
  *address = made->base;
  state().ranges.push_back(std::move(made));
  return kSuccess;
}

// Takes what "must have been returned by a previous call to one of the following memory allocation
// APIs". CUDA lets work finish that uses the memory; here that breaks a rule.
int cuMemFree_v2(uint64_t address) {
  const Call call("cuMemFree_v2", Needs::kContext);
  if (call.result != kSuccess) return call.result;
  const auto range = find_range(state().ranges, address);
  if (range == nullptr || range->kind != Kind::kDevice || range->base != address) {
    return call.misused("no allocation begins there, or it was freed");
  }
  return give_up(call, range);
}

// Page-locked memory. Under unified addressing its address is the device's too; only with
// CU_MEMHOSTALLOC_DEVICEMAP here, as on devices without that.
int cuMemHostAlloc(void** memory, size_t bytes, unsigned flags) {
  const Call call("cuMemHostAlloc", Needs::kContext);
  if (call.result != kSuccess) return call.result;
  if (bytes == 0 || flags > 7) return call.misused("no byte is asked for, or a flag is unknown");
  auto made = std::make_shared<Range>();
  Mapping mapping{bytes, Physical::make(bytes, -1), true, true};
  if (mapping.physical == nullptr) return kOutOfMemory;
  made->kind = Kind::kPinned;
  made->context = call.context;
  made->device = call.context->device;
  made->bytes = bytes;
  made->reached = std::make_unique<Reservation>(bytes);
  made->memory = made->reached->at();
  made->base = number(made->memory);
  made->mapped_for_device = (flags & kRegisterDeviceMap) != 0;
  if (!made->map(0, std::move(mapping))) return kOutOfMemory;
  *memory = made->memory;
  state().ranges.push_back(std::move(made));
  return kSuccess;
}

int cuMemFreeHost(void* memory) {
  const Call call("cuMemFreeHost", Needs::kContext);
  if (call.result != kSuccess) return call.result;
  const auto range = host_range_at(memory, Kind::kPinned);
  if (range == nullptr) return call.misused("no pinned memory begins there, or it was freed");
  return give_up(call, range);
}

// "Page-locks the memory range specified." A registered byte cannot be registered again. What is
// mapped read-only is taken only with CU_MEMHOSTREGISTER_READ_ONLY, as a driver did on an H100
// (docs/gpu.md), and with that flag only by a device that has the attribute. The device's address
// differs from the host's, as it may. Of how many ranges there may be CUDA says nothing.
int cuMemHostRegister_v2(void* memory, size_t bytes, unsigned flags) {
  const Call call("cuMemHostRegister_v2", Needs::kContext);
  if (call.result != kSuccess) return call.result;
  if (memory == nullptr || bytes == 0 || flags > 15) return call.misused("there is no such range");
  for (const auto& range : state().ranges) {
    const uint64_t other = number(range->memory);
    if (range->on_host() && number(memory) < other + range->bytes &&
        other < number(memory) + bytes) {
      return call.misused("a part of it is registered", kAlreadyRegistered);
    }
  }
  const bool read_only = (flags & kRegisterReadOnly) != 0;
  if (read_only && !state().settings.read_only_registration) {
    return call.misused("the device cannot register memory as read-only", kNotSupported);
  }
  const auto on_host = std::ranges::count_if(
      state().ranges, [](const std::shared_ptr<Range>& range) { return range->on_host(); });
  if (on_host >= state().settings.most_host_ranges) return kOutOfMemory;
  if (!is_mapped(memory, bytes, !read_only)) {
    return call.misused("it is not mapped, or is read-only and not registered so");
  }
  auto made = std::make_shared<Range>();
  made->kind = Kind::kRegistered;
  made->context = call.context;
  made->device = call.context->device;
  made->bytes = bytes;
  made->memory = static_cast<std::byte*>(memory);
  made->addresses = std::make_unique<Reservation>(bytes);
  made->base = number(made->addresses->at()) + number(memory) % 4096;
  made->mapped_for_device = (flags & kRegisterDeviceMap) != 0;
  made->read_only = read_only;
  state().ranges.push_back(std::move(made));
  return kSuccess;
}

// "The base address must be the same one specified to cuMemHostRegister()."
int cuMemHostUnregister(void* memory) {
  const Call call("cuMemHostUnregister", Needs::kContext);
  if (call.result != kSuccess) return call.result;
  const auto range = host_range_at(memory, Kind::kRegistered);
  if (range == nullptr) return call.misused("nothing is registered there", kNotRegistered);
  return give_up(call, range);
}

// The device's address "corresponding to the mapped, pinned host buffer p".
int cuMemHostGetDevicePointer_v2(uint64_t* address, void* memory, unsigned flags) {
  const Call call("cuMemHostGetDevicePointer_v2", Needs::kContext);
  if (call.result != kSuccess) return call.result;
  const auto range = find_host_range(state().ranges, memory, 1);
  if (flags != 0 || range == nullptr || !range->mapped_for_device) {
    return call.misused("it is not host memory that is mapped for the device");
  }
  *address = range->base + static_cast<uint64_t>(static_cast<std::byte*>(memory) - range->memory);
  return kSuccess;
}

}  // extern "C"
}  // namespace farpage::cuda
