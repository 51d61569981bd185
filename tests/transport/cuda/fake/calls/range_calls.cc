// CUDA Driver API: what an address is, Unified Addressing, and descriptors of ranges.

#include "tests/transport/cuda/fake/device/handles.h"
#include "tests/transport/cuda/fake/state.h"

namespace farpage::cuda {
namespace {

constexpr uint64_t kHostPage = 4096;

template <typename T>
void put(void* to, T value) {
  *static_cast<T*>(to) = value;  // the caller gives a variable of that type
}

// One value; zero or null where there is no range, as cuPointerGetAttributes says.
bool put_attribute(int attribute, const Range* range, uint64_t address, void* to) {
  const uint64_t offset = range != nullptr ? address - range->base : 0;
  const bool on_host = range != nullptr && range->on_host();
  switch (attribute) {
    case kPointerContext:
      put<Context>(to, range != nullptr ? range->context : nullptr);
      return true;
    case kPointerMemoryType:
      put<unsigned>(to, range == nullptr ? 0 : on_host ? kMemoryTypeHost : kMemoryTypeDevice);
      return true;
    case kPointerDeviceAddress:
      put<uint64_t>(to, range != nullptr && range->mapped_for_device ? address : 0);
      return true;
    case kPointerHostAddress:
      put<void*>(to, on_host ? range->memory + offset : nullptr);
      return true;
    case kPointerIsManaged:
      put<bool>(to, false);
      return true;
    case kPointerDevice:
      put<int>(to, range != nullptr ? range->device : -2);
      return true;
    case kPointerRangeStart:
      put<uint64_t>(to, range != nullptr ? range->base : 0);
      return true;
    case kPointerRangeBytes:
      put<uint64_t>(to, range != nullptr ? range->bytes : 0);
      return true;
    case kPointerMapped:
      put<bool>(to, on_host || (range != nullptr && range->covers(address, 1, false)));
      return true;
    case kPointerRdmaCapable:
      put<bool>(to, range != nullptr && !on_host);
      return true;
  }
  return false;
}

// The one mapping that has all of it; end: none.
auto mapping_of(const Range& range, uint64_t address, size_t bytes) {
  auto mapping = range.mappings.upper_bound(address - range.base);
  if (mapping == range.mappings.begin()) return range.mappings.end();
  --mapping;
  const uint64_t end = mapping->first + mapping->second.bytes;
  return address - range.base + bytes <= (end + kHostPage - 1) / kHostPage * kHostPage
             ? mapping
             : range.mappings.end();
}

}  // namespace

extern "C" {

// Base and size of the allocation, as it was asked for; of a reservation, the mapping.
int cuMemGetAddressRange_v2(uint64_t* base, size_t* bytes, uint64_t address) {
  const Call call("cuMemGetAddressRange_v2", Needs::kContext);
  if (call.result != kSuccess) return call.result;
  const auto range = find_range(state().ranges, address);
  if (range == nullptr) return kNotFound;
  uint64_t begin = range->base;
  uint64_t count = range->bytes;
  if (range->kind == Kind::kReserved) {
    const auto mapping = mapping_of(*range, address, 1);
    if (mapping == range->mappings.end()) return kNotFound;
    begin += mapping->first;
    count = mapping->second.bytes;
  }
  if (base != nullptr) *base = begin;
  if (bytes != nullptr) *bytes = count;
  return kSuccess;
}

// "Unlike cuPointerGetAttribute, this function will not return an error when the ptr encountered is
// not a valid CUDA pointer. Instead, the attributes are assigned default NULL values". An attribute
// that the fake does not have is CUDA_ERROR_INVALID_VALUE.
int cuPointerGetAttributes(unsigned count, int* attributes, void** values, uint64_t address) {
  const Call call("cuPointerGetAttributes", Needs::kContext);
  if (call.result != kSuccess) return call.result;
  auto range = find_range(state().ranges, address);
  const void* const on_host = reinterpret_cast<const void*>(address);
  if (range == nullptr && (range = find_host_range(state().ranges, on_host, 1)) != nullptr) {
    address = range->base + (address - reinterpret_cast<uint64_t>(range->memory));
  }
  for (unsigned i = 0; i < count; ++i) {
    if (!put_attribute(attributes[i], range.get(), address, values[i])) return kInvalidValue;
  }
  return kSuccess;
}

// The range must be aligned to pages of the host, and be "fully mapped" by memory of one device
// with the same properties. The descriptor is a dma-buf of its own where the kernel has udmabuf,
// and otherwise the memfd, in which FakeControl::describe_handle tells the range's offset. So one
// cuMemCreate must have it all: stricter than CUDA. Memory of the host is not supported, nor
// CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE.
int cuMemGetHandleForAddressRange(void* handle, uint64_t address, size_t bytes, int type,
                                  unsigned long long flags) {
  const Call call("cuMemGetHandleForAddressRange", Needs::kContext);
  if (call.result != kSuccess) return call.result;
  if (handle == nullptr || type != kDmaBufDescriptor || flags > 1 || bytes == 0 ||
      address % kHostPage != 0 || bytes % kHostPage != 0) {
    return call.misused("address and size are not multiples of a page, or the type is unknown");
  }
  if (!state().settings.dma_buf || flags != 0) return kNotSupported;
  const auto range = find_range(state().ranges, address);
  if (range == nullptr) return call.misused("there is no memory");
  if (range->on_host()) return kNotSupported;
  const auto mapping = mapping_of(*range, address, bytes);
  if (mapping == range->mappings.end()) {
    return call.misused("the range is not mapped whole by one allocation");
  }
  const int descriptor =
      make_handle(*mapping->second.physical, address - range->base - mapping->first, bytes);
  if (descriptor < 0) return kOutOfMemory;
  put<int>(handle, descriptor);
  return kSuccess;
}

}  // extern "C"
}  // namespace farpage::cuda
