#include "transport/verbs/wire.h"

#include <netinet/in.h>

#include <cstring>

namespace farpage::verbs {
namespace {

struct EndpointWire {
  uint16_t family;  // 4 or 6
  uint16_t port;
  std::array<uint8_t, 16> address;
};
static_assert(sizeof(EndpointWire) == 20);

struct OfferHead {
  uint32_t magic;
  uint32_t count;
  ChannelId channel;
};
static_assert(sizeof(OfferHead) == 24);

struct RegionHead {
  uint32_t magic;
  uint32_t count;
  uint64_t address;
};
static_assert(sizeof(RegionHead) == 16);

template <typename T>
void append(std::string& text, const T& value) {
  text.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <typename T>
T take(const std::string& text, size_t at) {
  T value;
  std::memcpy(&value, text.data() + at, sizeof value);
  return value;
}

EndpointWire to_wire(const Endpoint& endpoint) {
  EndpointWire wire = {
      static_cast<uint16_t>(endpoint.family() == AF_INET ? 4 : 6), endpoint.port(), {}};
  if (endpoint.family() == AF_INET) {
    const auto& address = reinterpret_cast<const sockaddr_in&>(endpoint.storage);
    std::memcpy(wire.address.data(), &address.sin_addr, sizeof address.sin_addr);
  } else {
    const auto& address = reinterpret_cast<const sockaddr_in6&>(endpoint.storage);
    std::memcpy(wire.address.data(), &address.sin6_addr, sizeof address.sin6_addr);
  }
  return wire;
}

std::optional<Endpoint> from_wire(const EndpointWire& wire) {
  Endpoint endpoint;
  if (wire.port == 0) return std::nullopt;
  if (wire.family == 4) {
    auto& address = reinterpret_cast<sockaddr_in&>(endpoint.storage);
    address.sin_family = AF_INET;
    address.sin_port = htons(wire.port);
    std::memcpy(&address.sin_addr, wire.address.data(), sizeof address.sin_addr);
    endpoint.bytes = sizeof address;
  } else if (wire.family == 6) {
    auto& address = reinterpret_cast<sockaddr_in6&>(endpoint.storage);
    address.sin6_family = AF_INET6;
    address.sin6_port = htons(wire.port);
    std::memcpy(&address.sin6_addr, wire.address.data(), sizeof address.sin6_addr);
    endpoint.bytes = sizeof address;
  } else {
    return std::nullopt;
  }
  return endpoint;
}

}  // namespace

std::string encode_offer(const OfferWire& offer) {
  std::string opaque;
  append(opaque, OfferHead{kMagic, static_cast<uint32_t>(offer.endpoints.size()), offer.channel});
  for (const Endpoint& endpoint : offer.endpoints) append(opaque, to_wire(endpoint));
  return opaque;
}

std::optional<OfferWire> decode_offer(const std::string& opaque) {
  if (opaque.size() < sizeof(OfferHead)) return std::nullopt;
  const auto head = take<OfferHead>(opaque, 0);
  if (head.magic != kMagic || head.count == 0 || head.count > kMaxDevices) return std::nullopt;
  if (opaque.size() != sizeof head + head.count * sizeof(EndpointWire)) return std::nullopt;
  OfferWire offer = {head.channel, {}};
  for (size_t at = sizeof head; at < opaque.size(); at += sizeof(EndpointWire)) {
    const auto endpoint = from_wire(take<EndpointWire>(opaque, at));
    if (!endpoint) return std::nullopt;
    offer.endpoints.push_back(*endpoint);
  }
  return offer;
}

std::string encode_region(const RegionWire& region) {
  std::string opaque;
  append(opaque, RegionHead{kMagic, region.paths, region.address});
  for (uint32_t path = 0; path < region.paths; ++path) append(opaque, region.keys[path]);
  return opaque;
}

std::optional<RegionWire> decode_region(const std::string& opaque, uint64_t bytes) {
  if (opaque.size() < sizeof(RegionHead)) return std::nullopt;
  const auto head = take<RegionHead>(opaque, 0);
  if (head.magic != kMagic || head.count == 0 || head.count > kMaxDevices) return std::nullopt;
  if (opaque.size() != sizeof head + head.count * sizeof(uint32_t)) return std::nullopt;
  if (head.address > UINT64_MAX - bytes) return std::nullopt;
  RegionWire region = {head.address, head.count, {}};
  std::memcpy(region.keys.data(), opaque.data() + sizeof head, head.count * sizeof(uint32_t));
  return region;
}

}  // namespace farpage::verbs
