#include "lab/vtime/virtual_wire.h"

#include <algorithm>

#include "base/clock.h"

namespace farpage::vtime {

uint64_t VirtualWire::transfer_ns(uint64_t page_bytes, uint32_t bits, const TierOptions& tier) {
  const auto product = static_cast<unsigned __int128>(page_bytes) * bits * kSecond;
  const auto ns = product / kFullBits / std::max<uint64_t>(1, tier.bytes_per_s);
  return static_cast<uint64_t>(std::clamp<unsigned __int128>(ns, 1, UINT64_MAX));
}

VirtualWire::VirtualWire(const std::vector<TierOptions>& tiers, uint64_t page_bytes,
                         const MakePlacement& make_placement)
    : page_bytes_(page_bytes), tiers_(tiers, make_placement) {
  for (const TierOptions& tier : tiers) links_.push_back({tier, 0});
}

void VirtualWire::on_access(const prefetch::Access& access) {
  tiers_.on_access(access);
  mass_ += access.mass;
  if (tiers_.bits(access.page) == kFullBits) return;
  ++imprecise_accesses_;
  imprecise_mass_ += access.mass;
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
  tiers_.fetch(page);
  Link& link = links_[tier];
  const uint64_t leaves_ns = std::min(std::max(now_ns_, link.free_at_ns), kEndNs);
  link.free_at_ns = leaves_ns + transfer_ns(page_bytes_, tiers_.bits(page), link.tier);
  arrivals_.push({link.free_at_ns + link.tier.latency_ns, begun_++, {page, is_demand}});
  return leaves_ns;
}

std::optional<VirtualWire::Landed> VirtualWire::next(uint64_t until_ns) {
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
