#include "sim/network/sim_target.h"

#include <algorithm>
#include <utility>

#include "sim/network/sim_region.h"
#include "sim/network/world.h"

namespace farpage::sim {

SimTarget::SimTarget(std::shared_ptr<Network> network, const Host& host)
    : network_(std::move(network)), host_(host), id_(network_->targets.add(*this)) {}

SimTarget::~SimTarget() {
  network_->targets.remove(id_);
}

Result<Region> SimTarget::allocate_writable(uint64_t bytes) {
  return allocate_region(network_, host_, bytes, Access::kRemoteWrite, id_);
}

size_t SimTarget::poll(std::span<uint32_t> immediates) {
  if (host_.paused) return 0;
  const size_t count = std::min(immediates.size(), arrived_.size());
  const auto last = arrived_.begin() + static_cast<ptrdiff_t>(count);
  std::copy(arrived_.begin(), last, immediates.begin());
  arrived_.erase(arrived_.begin(), last);
  return count;
}

void SimTarget::wait(uint64_t deadline_ns) {
  // Another event of the world may end this target meanwhile, as no other thread could.
  const auto ready = [network = network_.get(), id = id_, &host = host_] {
    const SimTarget* target = network->targets.find(id);
    return target == nullptr || (!target->arrived_.empty() && !host.paused);
  };
  (void)sim::wait_until(network_->world(), host_, deadline_ns, ready);
}

}  // namespace farpage::sim
