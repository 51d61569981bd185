#include "transport/verbs/registration.h"

#include <fmt/format.h>
#include <sys/resource.h>

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

tl::unexpected<Error> fail_to_register(int error, ibv_context* context, uint64_t bytes) {
  const std::string what = fmt::format("cannot register {} with the RDMA device {}",
                                       format_bytes(bytes), ::ibv_get_device_name(context->device));
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

}  // namespace

Result<Registration> Registration::make(std::span<ibv_pd* const> domains, const MemoryRange& range,
                                        Access access) {
  if (range.kind != MemoryKind::kHost) {
    return fail(Code::kInvalid, "this backend moves pages between host memory alone");
  }
  Registration registration;
  for (ibv_pd* domain : domains) {
    ibv_mr* key = ::ibv_reg_mr(domain, range.data, range.bytes, flags_of(access));
    if (key == nullptr) return fail_to_register(errno, domain->context, range.bytes);
    registration.keys_[registration.count_++] = key;
  }
  return registration;
}

Registration::Registration(Registration&& other) noexcept
    : keys_(other.keys_), count_(std::exchange(other.count_, 0)) {}

Registration::~Registration() {
  for (size_t i = 0; i < count_; ++i) ::ibv_dereg_mr(keys_[i]);
}

Result<Region> make_peer_region(std::shared_ptr<const void> owner, std::span<ibv_pd* const> domains,
                                uint64_t bytes, Access access) {
  auto mapping = take_peer_memory(bytes, access);
  if (!mapping) return tl::unexpected(mapping.error());
  const MemoryRange range = {mapping->data(), bytes, MemoryKind::kHost, -1};
  auto registration = Registration::make(domains, range, access);
  if (!registration) return tl::unexpected(registration.error());
  return Region(range, access, 0,
                std::make_unique<PeerBacking>(std::move(owner), std::move(*mapping),
                                              std::move(*registration)));
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
    : devices_(std::move(devices)), keys_(LocalRegistrations::kMost) {}

Result<Region> LocalKeys::add(const std::shared_ptr<LocalKeys>& keys, const MemoryRange& range) {
  std::array<ibv_pd*, kMaxDevices> domains = {};
  for (size_t i = 0; i < keys->devices_->size(); ++i) domains[i] = (*keys->devices_)[i].domain;
  auto registration =
      Registration::make(std::span(domains).first(keys->devices_->size()), range, Access::kLocal);
  if (!registration) return tl::unexpected(registration.error());
  const std::optional<uint64_t> key = keys->live_->add();
  if (!key) return fail(Code::kExhausted, "too many regions of local memory are registered");
  auto& device_keys = keys->keys_[static_cast<uint32_t>(*key) % LocalRegistrations::kMost];
  for (size_t i = 0; i < registration->size(); ++i) {
    device_keys[i].store(registration->local_key(i), std::memory_order_relaxed);
  }
  return Region(range, Access::kLocal, *key,
                std::make_unique<Backing>(keys, *key, std::move(*registration)));
}

}  // namespace farpage::verbs
