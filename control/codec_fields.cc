#include "control/codec_fields.h"

#include <utility>

namespace farpage {
namespace {

constexpr uint32_t kLastCode = static_cast<uint32_t>(Code::kOtherEpoch);

uint32_t attach(UniqueFd fd, std::vector<UniqueFd>& descriptors) {
  if (!fd.valid()) return 0;
  descriptors.push_back(std::move(fd));
  return static_cast<uint32_t>(descriptors.size());
}

UniqueFd detach(uint32_t descriptor, std::vector<UniqueFd>& descriptors) {
  if (descriptor == 0 || descriptor > descriptors.size()) return UniqueFd();
  return std::move(descriptors[descriptor - 1]);
}

// A device that no slice can name is none: the kind says already that it is not host memory.
MemoryPlace place_of(uint32_t kind, int32_t device) {
  MemoryPlace place;
  if (kind == static_cast<uint32_t>(MemoryKind::kCuda)) place.kind = MemoryKind::kCuda;
  if (std::in_range<int16_t>(device)) place.device = static_cast<int16_t>(device);
  return place;
}

}  // namespace

Code to_code(uint32_t code) {
  return code <= kLastCode ? static_cast<Code>(code) : Code::kProtocol;
}

void put(wire::Key& to, const PageKey& from) {
  to.set_low(from.low);
  to.set_high(from.high);
}

PageKey get(const wire::Key& from) {
  return {from.low(), from.high()};
}

void put(wire::Region& to, RegionExport&& from, std::vector<UniqueFd>& descriptors) {
  to.set_bytes(from.bytes);
  to.set_access(static_cast<uint32_t>(from.access));
  to.set_kind(static_cast<uint32_t>(from.place.kind));
  to.set_device(from.place.device);
  to.set_opaque(std::move(from.opaque));
  to.set_fd_index(attach(std::move(from.fd), descriptors));
}

RegionExport get(const wire::Region& from, std::vector<UniqueFd>& descriptors) {
  RegionExport to;
  to.bytes = from.bytes();
  to.access = from.access() == static_cast<uint32_t>(Access::kRemoteWrite) ? Access::kRemoteWrite
                                                                           : Access::kRemoteRead;
  to.place = place_of(from.kind(), from.device());
  to.opaque = from.opaque();
  to.fd = detach(from.fd_index(), descriptors);
  return to;
}

void put(wire::Offer& to, ChannelOffer&& from, std::vector<UniqueFd>& descriptors) {
  to.set_purpose(static_cast<uint32_t>(from.purpose));
  to.set_opaque(std::move(from.opaque));
  to.set_fd_index(attach(std::move(from.fd), descriptors));
}

ChannelOffer get(const wire::Offer& from, std::vector<UniqueFd>& descriptors) {
  ChannelOffer to;
  to.purpose = from.purpose() == static_cast<uint32_t>(ChannelPurpose::kStage)
                   ? ChannelPurpose::kStage
                   : ChannelPurpose::kRead;
  to.opaque = from.opaque();
  to.fd = detach(from.fd_index(), descriptors);
  return to;
}

void put(wire::VerdictCounts& to, const VerdictCounts& from) {
  to.set_fetches(from.fetches);
  to.set_ready(from.ready);
  to.set_ready_bytes(from.ready_bytes);
  to.set_miss(from.miss);
  to.set_stale(from.stale);
  to.set_corrupt(from.corrupt);
  to.set_stalled(from.stalled);
  to.set_unreachable(from.unreachable);
  to.set_slower(from.slower);
}

VerdictCounts get(const wire::VerdictCounts& from) {
  return {from.fetches(), from.ready(),   from.ready_bytes(), from.miss(),  from.stale(),
          from.corrupt(), from.stalled(), from.unreachable(), from.slower()};
}

void put(wire::PathTraffic& to, PathTraffic&& from) {
  to.set_path(std::move(from.path));
  to.set_connections(from.connections);
  to.set_reads(from.reads);
  to.set_read_bytes(from.read_bytes);
  to.set_writes(from.writes);
  to.set_write_bytes(from.write_bytes);
  to.set_refused(from.refused);
}

PathTraffic get(const wire::PathTraffic& from) {
  return {from.path(),   from.connections(), from.reads(),  from.read_bytes(),
          from.writes(), from.write_bytes(), from.refused()};
}

void put(wire::PortTraffic& to, PortTraffic&& from) {
  to.set_port(std::move(from.port));
  to.set_link_bits_per_s(from.link_bits_per_s);
  to.set_connections(from.connections);
  to.set_refused(from.refused);
  to.set_immediates(from.immediates);
  const PortCounts& counts = from.counts;
  if (counts.sent_bytes) to.set_sent_bytes(*counts.sent_bytes);
  if (counts.received_bytes) to.set_received_bytes(*counts.received_bytes);
  if (counts.sent_packets) to.set_sent_packets(*counts.sent_packets);
  if (counts.received_packets) to.set_received_packets(*counts.received_packets);
}

PortTraffic get(const wire::PortTraffic& from) {
  PortTraffic to = {from.port(),    from.link_bits_per_s(), from.connections(),
                    from.refused(), from.immediates(),      {}};
  if (from.has_sent_bytes()) to.counts.sent_bytes = from.sent_bytes();
  if (from.has_received_bytes()) to.counts.received_bytes = from.received_bytes();
  if (from.has_sent_packets()) to.counts.sent_packets = from.sent_packets();
  if (from.has_received_packets()) to.counts.received_packets = from.received_packets();
  return to;
}

void put(wire::FleetStatus& to, const FleetStatus& from) {
  to.set_node(from.node);
  for (const MemberStatus& member : from.others) {
    auto& added = *to.add_others();
    added.set_node(member.node);
    added.set_reached(member.reached);
  }
  to.set_replicas(from.replicas);
  to.set_replicated(from.replicated);
  to.set_applied(from.applied);
  to.set_filled(from.filled);
  to.set_filled_bytes(from.filled_bytes);
  to.set_to_fill(from.to_fill);
  to.set_repaired(from.repaired);
  to.set_dropped(from.dropped);
  to.set_puts_without_replica(from.puts_without_replica);
}

FleetStatus get(const wire::FleetStatus& from) {
  FleetStatus to;
  to.node = from.node();
  for (const auto& member : from.others()) to.others.push_back({member.node(), member.reached()});
  to.replicas = from.replicas();
  to.replicated = from.replicated();
  to.applied = from.applied();
  to.filled = from.filled();
  to.filled_bytes = from.filled_bytes();
  to.to_fill = from.to_fill();
  to.repaired = from.repaired();
  to.dropped = from.dropped();
  to.puts_without_replica = from.puts_without_replica();
  return to;
}

void put(wire::ScrubCounts& to, const ScrubCounts& from) {
  to.set_passes(from.passes);
  to.set_bytes(from.bytes);
  to.set_dropped(from.dropped);
  to.set_entries(from.entries);
}

ScrubCounts get(const wire::ScrubCounts& from) {
  return {from.passes(), from.bytes(), from.dropped(), from.entries()};
}

void put(wire::ClientBudgetStatus& to, const ClientBudgetStatus& from) {
  to.set_bytes(from.bytes);
  to.set_granted_bytes(from.granted_bytes);
  to.set_refused(from.refused);
}

ClientBudgetStatus get(const wire::ClientBudgetStatus& from) {
  return {from.bytes(), from.granted_bytes(), from.refused()};
}

void put(wire::TenantStatus& to, TenantStatus&& from) {
  to.set_name(std::move(from.name));
  to.set_quota_bytes(from.quota_bytes);
  to.set_held_bytes(from.held_bytes);
  to.set_clients(from.clients);
  to.set_puts(from.puts);
  to.set_put_bytes(from.put_bytes);
  to.set_puts_refused(from.puts_refused);
  to.set_removes(from.removes);
  to.set_evictions(from.evictions);
  put(*to.mutable_budget(), from.budget);
}

TenantStatus get(const wire::TenantStatus& from) {
  return {from.name(),      from.quota_bytes(), from.held_bytes(),   from.clients(),
          from.puts(),      from.put_bytes(),   from.puts_refused(), from.removes(),
          from.evictions(), get(from.budget())};
}

void put(wire::PushCounts& to, const PushCounts& from) {
  to.set_lanes(from.lanes);
  to.set_pages(from.pages);
  to.set_bytes(from.bytes);
  to.set_missed(from.missed);
  to.set_late(from.late);
  to.set_refused(from.refused);
}

PushCounts get(const wire::PushCounts& from) {
  return {from.lanes(), from.pages(), from.bytes(), from.missed(), from.late(), from.refused()};
}

void put(wire::EpochTag& to, const EpochTag& from) {
  to.set_number(from.number);
  to.set_identity(from.identity);
}

EpochTag get(const wire::EpochTag& from) {
  return {from.number(), from.identity()};
}

void put(wire::HeldPage& to, const HeldPage& from) {
  put(*to.mutable_key(), from.key);
  to.set_version(from.version);
  to.set_slot(from.slot);
  to.set_payload_bytes(from.payload_bytes);
  to.set_dead(from.dead);
}

HeldPage get(const wire::HeldPage& from) {
  return {get(from.key()), from.version(), from.slot(), from.payload_bytes(), from.dead()};
}

}  // namespace farpage
