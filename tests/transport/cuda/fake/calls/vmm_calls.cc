// CUDA Driver API, Virtual Memory Management.

#include <algorithm>
#include <bit>
#include <utility>

#include "tests/transport/cuda/fake/state.h"

namespace farpage::cuda {
namespace {

constexpr uint64_t kGranularity = 2 * 1024 * 1024;

bool is_whole(uint64_t bytes) {
  return bytes != 0 && bytes % kGranularity == 0;
}

bool is_known(const AllocationProperties* properties) {
  return properties != nullptr && properties->type == 1 && properties->handle_types <= 1 &&
         properties->location.type == 1 && properties->location.id >= 0 &&
         properties->location.id < state().settings.devices;
}

// The reservation that has all of it; null: none.
std::shared_ptr<Range> reservation_of(uint64_t address, uint64_t bytes) {
  const auto range = find_range(state().ranges, address);
  const bool whole = range != nullptr && range->kind == Kind::kReserved && bytes <= range->bytes &&
                     address - range->base <= range->bytes - bytes;
  return whole ? range : nullptr;
}

// The mappings that begin in it, if they end in it and leave no hole; empty: it is not so.
std::vector<uint64_t> mappings_in(const Range& range, uint64_t address, uint64_t bytes) {
  std::vector<uint64_t> found;
  uint64_t at = address - range.base;
  const uint64_t end = at + bytes;
  while (at < end) {
    const auto mapping = range.mappings.find(at);
    if (mapping == range.mappings.end() || mapping->second.bytes > end - at) return {};
    found.push_back(at);
    at += mapping->second.bytes;
  }
  return found;
}

bool overlaps(const Range& range, uint64_t address, uint64_t bytes) {
  const uint64_t begin = address - range.base;
  return std::ranges::any_of(range.mappings, [&](const auto& it) {
    return it.first < begin + bytes && begin < it.first + it.second.bytes;
  });
}

}  // namespace

extern "C" {

// Minimum and recommended are the same here: 2 MiB.
int cuMemGetAllocationGranularity(size_t* bytes, const AllocationProperties* properties,
                                  int option) {
  const Call call("cuMemGetAllocationGranularity", Needs::kInitialized);
  if (call.result != kSuccess) return call.result;
  if (!state().settings.vmm) return kNotSupported;
  if (!is_known(properties) || option < 0 || option > 1) {
    return call.misused("the properties or the option are unknown");
  }
  *bytes = kGranularity;
  return kSuccess;
}

// The size "must be a multiple of the value given via cuMemGetAllocationGranularity"; flags "must
// be zero now".
int cuMemCreate(unsigned long long* handle, size_t bytes, const AllocationProperties* properties,
                unsigned long long flags) {
  const Call call("cuMemCreate", Needs::kContext);
  if (call.result != kSuccess) return call.result;
  State& all = state();
  if (!all.settings.vmm) return kNotSupported;
  if (!is_whole(bytes) || !is_known(properties) || flags != 0) {
    return call.misused("the size is not a multiple of the granularity, or a property is unknown");
  }
  const int device = properties->location.id;
  const uint64_t limit = all.settings.device_bytes;
  if (bytes > limit || device_bytes_in_use(device) > limit - bytes) return kOutOfMemory;
  auto made = Physical::make(bytes, device);
  if (made == nullptr) return kOutOfMemory;
  *handle = ++all.last_handle;
  all.handles.emplace(*handle, std::move(made));
  return kSuccess;
}

// "The memory allocation will be freed when all outstanding mappings to the memory are unmapped and
// when all outstanding references to the handle" are released.
int cuMemRelease(unsigned long long handle) {
  const Call call("cuMemRelease", Needs::kContext);
  if (call.result != kSuccess) return call.result;
  if (state().handles.erase(handle) == 0) {
    return call.misused("there is no such handle, or it was released");
  }
  return kSuccess;
}

// Size and alignment by the granularity; flags "must be zero". The wanted address is only a wish,
// and the fake follows none.
int cuMemAddressReserve(uint64_t* address, size_t bytes, size_t alignment, uint64_t,
                        unsigned long long flags) {
  const Call call("cuMemAddressReserve", Needs::kContext);
  if (call.result != kSuccess) return call.result;
  if (!state().settings.vmm) return kNotSupported;
  if (!is_whole(bytes) || flags != 0 || (alignment != 0 && !std::has_single_bit(alignment))) {
    return call.misused("the size is not a multiple of the granularity, or the alignment no power");
  }
  auto made = std::make_shared<Range>();
  made->kind = Kind::kReserved;
  made->context = call.context;
  made->device = call.context->device;
  made->bytes = bytes;
  made->addresses = std::make_unique<Reservation>(bytes, std::max(alignment, kGranularity));
  made->reached = std::make_unique<Reservation>(bytes);
  made->base = reinterpret_cast<uint64_t>(made->addresses->at());
  made->memory = made->reached->at();
  *address = made->base;
  state().ranges.push_back(std::move(made));
  return kSuccess;
}

// Frees what was reserved by one call, whole and unmapped.
int cuMemAddressFree(uint64_t address, size_t bytes) {
  const Call call("cuMemAddressFree", Needs::kContext);
  if (call.result != kSuccess) return call.result;
  const auto range = reservation_of(address, bytes);
  if (range == nullptr || range->base != address || range->bytes != bytes) {
    return call.misused("this was not reserved by one call, or it was freed");
  }
  if (!range->mappings.empty()) return call.misused("something is still mapped there");
  std::erase(state().ranges, range);
  return kSuccess;
}

// "Note: currently must be zero", says cuda.h of the offset. And it "does not make the
// address accessible": cuMemSetAccess does.
int cuMemMap(uint64_t address, size_t bytes, size_t offset, unsigned long long handle,
             unsigned long long flags) {
  const Call call("cuMemMap", Needs::kContext);
  if (call.result != kSuccess) return call.result;
  const auto range = reservation_of(address, bytes);
  const auto physical = state().handles.find(handle);
  if (range == nullptr || physical == state().handles.end() || !is_whole(bytes) ||
      address % kGranularity != 0 || offset != 0 || flags != 0 ||
      bytes > physical->second->bytes()) {
    return call.misused("addresses, sizes and handle do not go together");
  }
  if (overlaps(*range, address, bytes)) return call.misused("something is mapped there");
  return range->map(address - range->base, {bytes, physical->second, false, false}) ? kSuccess
                                                                                    : kOutOfMemory;
}

// "The range must be the entire contiguous address range that was mapped to." CUDA leaves it to the
// caller that nothing uses it; here that is looked at.
int cuMemUnmap(uint64_t address, size_t bytes) {
  const Call call("cuMemUnmap", Needs::kContext);
  if (call.result != kSuccess) return call.result;
  const auto range = reservation_of(address, bytes);
  const auto gone =
      range != nullptr ? mappings_in(*range, address, bytes) : std::vector<uint64_t>();
  if (gone.empty()) return call.misused("it is not mapped, or only parts of mappings are named");
  if (range->users > 0) return call.misused("a stream still uses the memory");
  for (const uint64_t offset : gone) range->unmap(offset);
  return kSuccess;
}

// For whole mappings, as CUDA demands.
int cuMemSetAccess(uint64_t address, size_t bytes, const MemoryAccess* access, size_t count) {
  const Call call("cuMemSetAccess", Needs::kContext);
  if (call.result != kSuccess) return call.result;
  const auto range = reservation_of(address, bytes);
  const auto mapped =
      range != nullptr ? mappings_in(*range, address, bytes) : std::vector<uint64_t>();
  if (mapped.empty() || access == nullptr || count == 0) {
    return call.misused("it is not mapped, or only parts of mappings are named");
  }
  for (size_t i = 0; i < count; ++i) {
    const int flags = access[i].flags;
    if (access[i].location.type != 1 || access[i].location.id != range->device ||
        (flags != 0 && flags != 1 && flags != 3)) {
      return call.misused("the location or the flags are unknown");
    }
    for (const uint64_t offset : mapped) {
      range->mappings[offset].readable = flags != 0;
      range->mappings[offset].writable = flags == 3;
    }
  }
  return kSuccess;
}

}  // extern "C"
}  // namespace farpage::cuda
