#include "sim/fault/fault_fabric.h"

#include <utility>

#include "base/units.h"
#include "sim/fault/fault_initiator.h"

namespace farpage::fault {
namespace {

constexpr uint64_t kSourceBytes = 64 * kKiB;  // longer writes are not flipped

}  // namespace

// Memory that the other fabric has allocated, and the thread that flips its bits meanwhile.
struct ReadableMemory {
  explicit ReadableMemory(Region of) : region(std::move(of)) {}
  const Region region;
};

namespace {

struct ReadableBacking final : Region::Backing {
  explicit ReadableBacking(std::shared_ptr<ReadableMemory> of) : memory(std::move(of)) {}
  const std::shared_ptr<ReadableMemory> memory;
};

}  // namespace

FaultFabric::FaultFabric(Fabric& inner, const Clock& clock, uint64_t seed)
    : ForwardingFabric(inner), shared_(std::make_shared<SharedPlan>(clock)), random_(seed) {}

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
  return watched(inner().allocate_readable(bytes));
}

Result<Region> FaultFabric::allocate_lasting(uint64_t bytes, UniqueFd& file) {
  auto* lasting = dynamic_cast<LastingMemory*>(&inner());
  if (lasting == nullptr) return fail(Code::kInvalid, "this fabric's memory cannot be kept");
  return watched(lasting->allocate_lasting(bytes, file));
}

Result<Region> FaultFabric::watched(Result<Region> region) {
  if (!region) return region;
  const auto memory = std::make_shared<ReadableMemory>(std::move(*region));
  const Region& own = memory->region;
  std::lock_guard lock(mutex_);
  std::erase_if(readable_, [](const auto& known) { return known.expired(); });
  readable_.push_back(memory);
  return Region({own.data(), own.bytes(), own.place()}, own.access(), own.slice(0, 0).local_key,
                std::make_unique<ReadableBacking>(memory));
}

Result<RegionExport> FaultFabric::export_region(const Region& region) {
  const auto* allocated = dynamic_cast<const ReadableBacking*>(region.backing());
  return inner().export_region(allocated == nullptr ? region : allocated->memory->region);
}

std::optional<FlippedByte> FaultFabric::flip_at_rest() {
  std::lock_guard lock(mutex_);
  std::erase_if(readable_, [](const auto& known) { return known.expired(); });
  if (readable_.empty()) return std::nullopt;
  const auto memory = readable_[random_.below(readable_.size())].lock();
  if (memory == nullptr) return std::nullopt;
  const uint64_t bit = random_.below(memory->region.bytes() * 8);
  std::byte* at = memory->region.data() + bit / 8;
  // A thread that writes there at the same time does not lose its write.
  std::atomic_ref(*reinterpret_cast<uint8_t*>(at)).fetch_xor(static_cast<uint8_t>(1u << bit % 8));
  shared_->injected.add(FaultKind::kFlippedAtRest);
  return FlippedByte{at, bit / 8, memory};
}

Result<std::unique_ptr<Initiator>> FaultFabric::connect(ChannelOffer offer, uint64_t deadline_ns) {
  auto initiator = inner().connect(std::move(offer), deadline_ns);
  if (!initiator) return initiator;
  std::vector<std::byte> memory(kSourceBytes);
  auto sources = inner().register_local({memory.data(), memory.size()});
  if (!sources) return tl::unexpected(sources.error());
  std::lock_guard lock(mutex_);
  return std::make_unique<FaultInitiator>(std::move(*initiator), shared_, random_.next(),
                                          std::move(memory), std::move(*sources));
}

}  // namespace farpage::fault
