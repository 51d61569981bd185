#include "bench/vtime/virtual_wire.h"

#include <algorithm>

#include "base/clock.h"

namespace farpage::vtime {

uint64_t VirtualWire::transfer_ns(uint64_t page_bytes, const TierOptions& tier) {
  const auto product = static_cast<unsigned __int128>(page_bytes) * kSecond;
  const auto ns = product / std::max<uint64_t>(1, tier.bytes_per_s);
  return static_cast<uint64_t>(std::clamp<unsigned __int128>(ns, 1, UINT64_MAX));
}

VirtualWire::VirtualWire(const std::vector<TierOptions>& tiers, uint64_t page_bytes)
    : tiers_(tiers) {
  for (const TierOptions& tier : tiers) {
    links_.push_back({tier.latency_ns, transfer_ns(page_bytes, tier), 0});
  }
}

bool VirtualWire::begin(PageNumber page) {
  carry(page, false);
  return true;
}

void VirtualWire::demand(PageNumber page) {
  waited_ns_ += carry(page, true) - now_ns_;
}

uint64_t VirtualWire::carry(PageNumber page, bool is_demand) {
  const size_t tier = *tiers_.nearest(page);
  tiers_.use(tier, page);
  Link& link = links_[tier];
  const uint64_t leaves_ns = std::min(std::max(now_ns_, link.free_at_ns), kEndNs);
  link.free_at_ns = leaves_ns + link.transfer_ns;
  arrivals_.push({link.free_at_ns + link.latency_ns, begun_++, {page, is_demand, true}});
  return leaves_ns;
}

std::optional<Wire::Landed> VirtualWire::next(uint64_t until_ns) {
  if (arrivals_.empty() || arrivals_.top().at_ns > until_ns) {
    now_ns_ = std::max(now_ns_, until_ns);
    return std::nullopt;
  }
  const Arrival arrival = arrivals_.top();
  arrivals_.pop();
  now_ns_ = std::max(now_ns_, arrival.at_ns);
  return arrival.landed;
}

}  // namespace farpage::vtime
