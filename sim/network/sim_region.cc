#include "sim/network/sim_region.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <variant>

#include "base/units.h"
#include "transport/host_memory.h"

namespace farpage::sim {
namespace {

constexpr uint64_t kMaxBytes = uint64_t{1} << 40;
constexpr uint64_t kAlignment = 4 * kKiB;

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};
using Allocated = std::unique_ptr<void, Free>;
using Memory = std::variant<Allocated, Mapping>;

class SimBacking : public Region::Backing {
 public:
  SimBacking(std::shared_ptr<Network> network, uint64_t key, Memory memory)
      : network_(std::move(network)), key_(key), memory_(std::move(memory)) {}
  // Operations in flight find the registration gone when they want to touch the memory, and fail.
  ~SimBacking() override { network_->remove_registration(key_); }

 private:
  std::shared_ptr<Network> network_;
  uint64_t key_;
  Memory memory_;
};

Region make_region(const std::shared_ptr<Network>& network, const Registration& registration,
                   Memory memory) {
  const uint64_t key = network->add_registration(registration);
  return Region({.data = registration.data, .bytes = registration.bytes}, registration.access, key,
                std::make_unique<SimBacking>(network, key, std::move(memory)));
}

}  // namespace

Result<Region> allocate_region(const std::shared_ptr<Network>& network, const Host& host,
                               uint64_t bytes, Access access, uint32_t target) {
  if (bytes == 0) return fail(Code::kInvalid, "a region of no bytes");
  void* data = nullptr;
  // Not rounded up: so AddressSanitizer sees the byte behind the region.
  if (bytes > kMaxBytes || ::posix_memalign(&data, kAlignment, bytes) != 0) {
    return fail(Code::kExhausted, "no memory for a region of " + format_bytes(bytes));
  }
  std::memset(data, 0, bytes);
  return make_region(network, {static_cast<std::byte*>(data), bytes, access, &host, target},
                     Allocated(data));
}

Region lasting_region(const std::shared_ptr<Network>& network, const Host& host, Mapping memory,
                      uint64_t bytes) {
  std::byte* data = memory.data();
  return make_region(network, {data, bytes, Access::kRemoteRead, &host, 0}, std::move(memory));
}

Result<Region> register_region(const std::shared_ptr<Network>& network, const Host& host,
                               const MemoryRange& range) {
  if (range.data == nullptr || range.bytes == 0)
    return fail(Code::kInvalid, "a region of no bytes");
  if (auto is_host = require_host_memory(range.place); !is_host) {
    return tl::unexpected(is_host.error());
  }
  return make_region(network, {range.data, range.bytes, Access::kLocal, &host, 0}, Allocated());
}

std::string opaque_key(uint64_t key) {
  return std::string(reinterpret_cast<const char*>(&key), sizeof key);
}

Result<uint64_t> key_of(const RegionExport& region) {
  uint64_t key = 0;
  if (region.opaque.size() != sizeof key)
    return fail(Code::kProtocol, "not a key of a simulated region");
  if (region.bytes == 0 || region.bytes > kMaxBytes) {
    return fail(Code::kProtocol, "a region of an impossible size");
  }
  if (region.place != MemoryPlace() || region.fd.valid() ||
      (region.access != Access::kRemoteRead && region.access != Access::kRemoteWrite)) {
    return fail(Code::kProtocol, "a region that no simulated host can have");
  }
  std::memcpy(&key, region.opaque.data(), sizeof key);
  return key;
}

void move_local(const Operation& operation, std::byte* whole, uint64_t begin, uint64_t bytes,
                Move direction) {
  uint64_t slice_begin = 0;
  for (uint32_t i = 0; i < operation.local_count; ++i) {
    const Slice& slice = operation.local[i];
    const uint64_t from = std::max(begin, slice_begin);
    const uint64_t to = std::min(begin + bytes, slice_begin + slice.bytes);
    if (from < to) {
      std::byte* local = slice.data + (from - slice_begin);
      if (direction == Move::kGather) {
        std::memcpy(whole + from, local, to - from);
      } else {
        std::memcpy(local, whole + from, to - from);
      }
    }
    slice_begin += slice.bytes;
  }
}

}  // namespace farpage::sim
