#include "transport/fault/fault_fabric.h"

#include <utility>

#include "base/units.h"
#include "transport/fault/fault_channel.h"

namespace farpage::fault {
namespace {

constexpr uint64_t kSourceBytes = 64 * kKiB;  // longer writes are not flipped

}  // namespace

FaultFabric::FaultFabric(Fabric& inner, const Clock& clock, uint64_t seed)
    : inner_(inner), shared_(std::make_shared<SharedPlan>(clock)), random_(seed) {}

FaultFabric::~FaultFabric() = default;

void FaultFabric::watch(FaultWatcher watcher) {
  shared_->watcher = std::move(watcher);
}

void FaultFabric::set_plan(const FaultPlan& plan) {
  shared_->set(plan);
}

void FaultFabric::stop_peers() {
  shared_->peers_stopped.store(true);
}

void FaultFabric::resume_peers() {
  shared_->peers_stopped.store(false);
}

const FaultCounts& FaultFabric::injected() const {
  return shared_->injected;
}

Result<Region> FaultFabric::allocate_readable(uint64_t bytes) {
  auto region = inner_.allocate_readable(bytes);
  if (!region) return region;
  std::lock_guard lock(mutex_);
  readable_.push_back({region->data(), region->bytes()});
  return region;
}

std::optional<FlippedByte> FaultFabric::flip_at_rest() {
  std::lock_guard lock(mutex_);
  if (readable_.empty()) return std::nullopt;
  const MemoryRange& range = readable_[random_.below(readable_.size())];
  const uint64_t bit = random_.below(range.bytes * 8);
  // Whoever writes there at the same time does not lose its write.
  std::atomic_ref(*reinterpret_cast<uint8_t*>(range.data + bit / 8))
      .fetch_xor(static_cast<uint8_t>(1u << bit % 8));
  shared_->injected.add(FaultKind::kFlippedAtRest);
  return FlippedByte{range.data + bit / 8, bit / 8};
}

Result<std::unique_ptr<Channel>> FaultFabric::connect(ChannelOffer offer, uint64_t deadline_ns) {
  auto channel = inner_.connect(std::move(offer), deadline_ns);
  if (!channel) return channel;
  std::vector<std::byte> memory(kSourceBytes);
  auto sources = inner_.register_local({memory.data(), memory.size()});
  if (!sources) return tl::unexpected(sources.error());
  std::lock_guard lock(mutex_);
  return std::make_unique<FaultChannel>(std::move(*channel), shared_, random_.next(),
                                        std::move(memory), std::move(*sources));
}

}  // namespace farpage::fault
