#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "base/memory/mapping.h"
#include "transport/local_registrations.h"
#include "transport/memory.h"
#include "transport/operation.h"
#include "transport/verbs/paths/device.h"

namespace farpage::verbs {

class LocalKeys;

// One range of memory, registered in one protection domain or several. Memory of a GPU by its
// dma-buf, or else by its address, which its kernel driver has to know (nvidia-peermem). The
// destructor ends the registration: no device touches the memory afterwards.
class Registration {
 public:
  static Result<Registration> make(std::span<ibv_pd* const> domains, const MemoryRange& range,
                                   Access access);
  Registration(Registration&& other) noexcept;
  Registration& operator=(Registration&&) = delete;
  ~Registration();

  size_t size() const { return count_; }
  uint32_t local_key(size_t domain) const { return keys_[domain]->lkey; }
  uint32_t remote_key(size_t domain) const { return keys_[domain]->rkey; }

 private:
  Registration() = default;

  std::array<ibv_mr*, kMaxDevices> keys_ = {};
  size_t count_ = 0;
};

// Memory for peers: behind a region of allocate_readable() or allocate_writable().
struct PeerBacking final : Region::Backing {
  PeerBacking(std::shared_ptr<const void> domain_owner, Mapping memory, Registration registered)
      : owner(std::move(domain_owner)),
        mapping(std::move(memory)),
        registration(std::move(registered)) {}
  ~PeerBacking() override;

  std::shared_ptr<const void> owner;  // of the protection domains
  Mapping mapping;
  Registration registration;  // after mapping: it ends first
  uint64_t source_key = 0;    // of what may be a source of writes
  std::shared_ptr<LocalKeys> sources;
};

// This process's own memory by the keys that slices carry, with each device's key for it. A
// channel's reads here on the way of a fetch are wait-free.
class LocalKeys {
 public:
  explicit LocalKeys(std::shared_ptr<const Devices> devices);

  static Result<Region> add(const std::shared_ptr<LocalKeys>& keys, const MemoryRange& range);

  // A key for memory that is registered with every device already; nothing when there are too many.
  std::optional<uint64_t> add(const Registration& registration, MemoryPlace place = {});
  void remove(uint64_t local_key) { live_->remove(local_key); }

  // Whether the local slices are of memory that is registered now, and that lies where they say:
  // otherwise the operation ends as refused.
  bool may_begin(const Operation& operation) const;
  uint32_t device_key(uint64_t local_key, size_t device) const {
    return keys_[static_cast<uint32_t>(local_key) % LocalRegistrations::kMost][device].load(
        std::memory_order_relaxed);
  }
  // The local slices of `bytes` bytes of an operation from one byte of it on, for one device; how
  // many that are.
  size_t gather(const Operation& operation, uint64_t from, uint64_t bytes, size_t device,
                std::span<ibv_sge> slices) const;

 private:
  struct Backing;

  const std::shared_ptr<const Devices> devices_;
  const std::unique_ptr<LocalRegistrations> live_ = std::make_unique<LocalRegistrations>();
  std::vector<std::array<std::atomic<uint32_t>, kMaxDevices>> keys_;
  std::vector<std::atomic<uint32_t>> places_;  // of the memory with each
};

// `sources`: by whose keys its memory is a source of writes too; null: of none. Then `domains` are
// the devices' own.
Result<Region> make_peer_region(std::shared_ptr<const void> owner, std::span<ibv_pd* const> domains,
                                uint64_t bytes, Access access,
                                std::shared_ptr<LocalKeys> sources = nullptr);
// Of memory that has been taken.
Result<Region> register_peer_memory(std::shared_ptr<const void> owner,
                                    std::span<ibv_pd* const> domains, Mapping memory,
                                    uint64_t bytes, Access access,
                                    std::shared_ptr<LocalKeys> sources);

}  // namespace farpage::verbs
