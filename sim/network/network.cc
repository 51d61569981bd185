#include "sim/network/network.h"

#include <cstring>

#include "base/check.h"
#include "sim/network/world.h"

namespace farpage::sim {
namespace {

struct OfferWire {
  uint64_t index;
  uint64_t secret;
};

uint64_t to_world(uint64_t host_ns, int64_t ahead_ns) {
  if (host_ns == kNever) return kNever;
  if (ahead_ns > 0 && host_ns < static_cast<uint64_t>(ahead_ns)) return 0;
  return host_ns - static_cast<uint64_t>(ahead_ns);
}

}  // namespace

bool wait_until(World& world, const Host& host, uint64_t deadline_ns,
                const std::function<bool()>& ready) {
  while (true) {
    const int64_t ahead = host.clock_ahead_ns;
    const uint64_t in_world = to_world(deadline_ns, ahead);
    bool is_ready = false;
    world.wait_until(in_world,
                     [&] { return (is_ready = ready()) || host.clock_ahead_ns != ahead; });
    if (is_ready || host.clock_ahead_ns == ahead) return is_ready;
  }
}

Host& Network::add_host(const SimOptions& options) {
  hosts_.emplace_back().options = options;
  return hosts_.back();
}

uint64_t Network::add_registration(const Registration& registration) {
  uint32_t index = static_cast<uint32_t>(entries_.size());
  if (free_entries_.empty()) {
    entries_.emplace_back();
  } else {
    index = free_entries_.back();
    free_entries_.pop_back();
  }
  Entry& added = entries_[index];
  added = {registration, added.generation + 1, true};
  return uint64_t{added.generation} << 32 | index;
}

void Network::remove_registration(uint64_t key) {
  FARPAGE_CHECK(find(key) != nullptr);
  const uint32_t index = static_cast<uint32_t>(key);
  entries_[index].registered = false;
  free_entries_.push_back(index);
}

const Network::Entry* Network::entry(uint64_t key) const {
  const uint32_t index = static_cast<uint32_t>(key);
  return index < entries_.size() ? &entries_[index] : nullptr;
}

const Registration* Network::find(uint64_t key) const {
  const Entry* found = entry(key);
  const bool current = found && found->registered && found->generation == key >> 32;
  return current ? &found->registration : nullptr;
}

bool Network::was_issued(uint64_t key) const {
  const Entry* found = entry(key);
  return found && key >> 32 != 0 && key >> 32 <= found->generation;
}

std::string Network::add_offer(uint32_t target, ChannelPurpose purpose) {
  const OfferWire wire{offers_.size(), world_.random()};
  offers_.push_back({wire.secret, target, purpose});
  return std::string(reinterpret_cast<const char*>(&wire), sizeof wire);
}

Result<SimTarget*> Network::take_offer(const std::string& opaque, ChannelPurpose purpose) {
  OfferWire wire;
  if (opaque.size() != sizeof wire)
    return fail(Code::kProtocol, "not an offer of a simulated channel");
  std::memcpy(&wire, opaque.data(), sizeof wire);
  if (wire.index >= offers_.size() || offers_[wire.index].secret != wire.secret ||
      offers_[wire.index].purpose != purpose) {
    return fail(Code::kProtocol, "an offer that no simulated host has made");
  }
  Offer& offer = offers_[wire.index];
  if (offer.taken) return fail(Code::kExists, "this offer has been taken up already");
  SimTarget* target = targets.find(offer.target);
  if (target == nullptr) return fail(Code::kUnavailable, "the offered channel is gone");
  offer.taken = true;
  return target;
}

}  // namespace farpage::sim
