#include "transport/verbs/registration.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>

#include "base/units.h"
#include "transport/peer_memory.h"

namespace farpage::verbs {
namespace {

// Relaxed ordering is a wish that a device may ignore: docs/decisions/0013-verbs.md.
constexpr int flags_of(Access access) {
  switch (access) {
    case Access::kRemoteRead:
      return IBV_ACCESS_REMOTE_READ | IBV_ACCESS_RELAXED_ORDERING;
    case Access::kRemoteWrite:  // which verbs gives only with local writing
      return IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING;
    case Access::kLocal:
      return IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING;
  }
  return 0;
}

constexpr const char* kTooManyRegions = "too many regions of local memory are registered";

// What each of the two ways to a GPU's memory needs.
const char* what_it_needs(const MemoryRange& range) {
  if (range.dma_buf >= 0) return "the RDMA device's driver has to take dma-bufs (Linux 5.12)";
  return "without a dma-buf it needs NVIDIA's peer memory module (modprobe nvidia-peermem)";
}

tl::unexpected<Error> fail_to_register(int error, ibv_context* context, const MemoryRange& range) {
  const bool is_host = range.place.is_host();
  const std::string what = fmt::format(
      "cannot register {}{} with the RDMA device {}", format_bytes(range.bytes),
      is_host ? "" : " of " + place_name(range.place), ::ibv_get_device_name(context->device));
  if (!is_host) {
    const Error failed = fail_errno(error, what).value();
    return fail(Code::kInvalid, fmt::format("{}: {}; or register host memory and copy from there",
                                            failed.message, what_it_needs(range)));
  }
  rlimit limit = {};
  const bool limited = ::getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  if (limited && (error == ENOMEM || error == EAGAIN || error == EPERM)) {
    return fail(Code::kExhausted,
                fmt::format("{}: this process may lock {} of memory. Raise its limit: `ulimit -l "
                            "unlimited`, or LimitMEMLOCK=infinity in a systemd unit",
                            what, format_bytes(limit.rlim_cur)));
  }
  return fail_errno(error, what);
}

constexpr uint32_t number_of(MemoryPlace place) {
  return static_cast<uint32_t>(place.kind) << 16 | static_cast<uint16_t>(place.device);
}

// By its address, as the device's work requests name it.
ibv_mr* register_range(ibv_pd* domain, const MemoryRange& range, int flags) {
  if (range.dma_buf < 0) return ibv_reg_mr(domain, range.data, range.bytes, flags);
  const auto address = reinterpret_cast<uint64_t>(range.data);
  return ::ibv_reg_dmabuf_mr(domain, 0, range.bytes, address, range.dma_buf, flags);
}

}  // namespace

Result<Registration> Registration::make(std::span<ibv_pd* const> domains, const MemoryRange& range,
                                        Access access) {
  Registration registration;
  for (ibv_pd* domain : domains) {
    ibv_mr* key = register_range(domain, range, flags_of(access));
    if (key == nullptr) return fail_to_register(errno, domain->context, range);
    registration.keys_[registration.count_++] = key;
  }
  return registration;
}

Registration::Registration(Registration&& other) noexcept
    : keys_(other.keys_), count_(std::exchange(other.count_, 0)) {}

Registration::~Registration() {
  for (size_t i = 0; i < count_; ++i) ::ibv_dereg_mr(keys_[i]);
}

PeerBacking::~PeerBacking() {
  if (source_key != 0) sources->remove(source_key);
}

Result<Region> make_peer_region(std::shared_ptr<const void> owner, std::span<ibv_pd* const> domains,
                                uint64_t bytes, Access access, std::shared_ptr<LocalKeys> sources) {
  auto mapping = take_peer_memory(bytes, access, /*pinned=*/true);
  if (!mapping) return tl::unexpected(mapping.error());
  return register_peer_memory(std::move(owner), domains, std::move(*mapping), bytes, access,
                              std::move(sources));
}

Result<Region> register_peer_memory(std::shared_ptr<const void> owner,
                                    std::span<ibv_pd* const> domains, Mapping memory,
                                    uint64_t bytes, Access access,
                                    std::shared_ptr<LocalKeys> sources) {
  const MemoryRange range = {memory.data(), bytes};
  auto registration = Registration::make(domains, range, access);
  if (!registration) return tl::unexpected(registration.error());
  auto backing =
      std::make_unique<PeerBacking>(std::move(owner), std::move(memory), std::move(*registration));
  if (sources != nullptr) {
    const std::optional<uint64_t> key = sources->add(backing->registration);
    if (!key) return fail(Code::kExhausted, kTooManyRegions);
    backing->source_key = *key;
    backing->sources = std::move(sources);
  }
  const uint64_t key = backing->source_key;
  return Region(range, access, key, std::move(backing));
}

struct LocalKeys::Backing final : Region::Backing {
  Backing(std::shared_ptr<LocalKeys> owner, uint64_t local_key, Registration registered)
      : keys(std::move(owner)), key(local_key), registration(std::move(registered)) {}
  ~Backing() override { keys->live_->remove(key); }

  std::shared_ptr<LocalKeys> keys;
  uint64_t key;
  Registration registration;
};

LocalKeys::LocalKeys(std::shared_ptr<const Devices> devices)
    : devices_(std::move(devices)),
      keys_(LocalRegistrations::kMost),
      places_(LocalRegistrations::kMost) {}

Result<Region> LocalKeys::add(const std::shared_ptr<LocalKeys>& keys, const MemoryRange& range) {
  std::array<ibv_pd*, kMaxDevices> domains = {};
  for (size_t i = 0; i < keys->devices_->size(); ++i) domains[i] = (*keys->devices_)[i].domain;
  auto registration =
      Registration::make(std::span(domains).first(keys->devices_->size()), range, Access::kLocal);
  if (!registration) return tl::unexpected(registration.error());
  const std::optional<uint64_t> key = keys->add(*registration, range.place);
  if (!key) return fail(Code::kExhausted, kTooManyRegions);
  return Region({range.data, range.bytes, range.place}, Access::kLocal, *key,
                std::make_unique<Backing>(keys, *key, std::move(*registration)));
}

std::optional<uint64_t> LocalKeys::add(const Registration& registration, MemoryPlace place) {
  const std::optional<uint64_t> key = live_->add();
  if (!key) return key;
  auto& device_keys = keys_[static_cast<uint32_t>(*key) % LocalRegistrations::kMost];
  for (size_t i = 0; i < registration.size(); ++i) {
    device_keys[i].store(registration.local_key(i), std::memory_order_relaxed);
  }
  places_[static_cast<uint32_t>(*key) % LocalRegistrations::kMost].store(number_of(place),
                                                                         std::memory_order_relaxed);
  return key;
}

bool LocalKeys::may_begin(const Operation& operation) const {
  for (int i = 0; i < operation.local_count; ++i) {
    const Slice& slice = operation.local[i];
    if (!live_->is_live(slice.local_key)) return false;
    const auto& place = places_[static_cast<uint32_t>(slice.local_key) % LocalRegistrations::kMost];
    if (place.load(std::memory_order_relaxed) != number_of(slice.place)) return false;
  }
  return true;
}

size_t LocalKeys::gather(const Operation& operation, uint64_t from, uint64_t bytes, size_t device,
                         std::span<ibv_sge> slices) const {
  size_t count = 0;
  for (int i = 0; i < operation.local_count && bytes > 0; ++i) {
    const Slice& slice = operation.local[i];
    const uint64_t skipped = std::min(from, slice.bytes);
    from -= skipped;
    const uint64_t taken = std::min(bytes, slice.bytes - skipped);
    if (taken == 0) continue;
    bytes -= taken;
    slices[count++] = {reinterpret_cast<uint64_t>(slice.data + skipped),
                       static_cast<uint32_t>(taken), device_key(slice.local_key, device)};
  }
  return count;
}

}  // namespace farpage::verbs
