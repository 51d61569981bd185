#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "net/security/greeting.h"
#include "transport/fabric.h"

namespace farpage::ucx {

// Layout of ChannelOffer::opaque and RegionExport::opaque: a head, and bytes that UCX alone
// understands. Little endian. The CRC-32C, over the whole with the field zero, keeps damaged bytes
// from UCX's parsers, which trust what they are given; nothing keeps lies from them.
struct OfferHead {
  uint32_t magic;
  uint32_t crc;
  uint32_t purpose;
  uint32_t address_bytes;  // as many follow
  ChannelId channel;
};
static_assert(sizeof(OfferHead) == 32);

struct RegionHead {
  uint32_t magic;
  uint32_t crc;
  uint32_t generation;
  uint32_t key_bytes;  // as many follow
  uint64_t address;
  uint64_t bytes;
};
static_assert(sizeof(RegionHead) == 32);

// The last 64 bytes of a region's memory, behind its own bytes. A reader that has attached the
// memory looks here before each transfer.
struct Trailer {
  uint32_t registered;  // 1 as long as the region lives
  uint32_t generation;
};
inline constexpr uint64_t kTrailerBytes = 64;
uint64_t trailer_offset(uint64_t region_bytes);

inline constexpr uint64_t kMaxRegionBytes = uint64_t{1} << 46;

// Active messages.
inline constexpr unsigned kHelloMessage = 1;      // header: ChannelId; data: an offer of the sender
inline constexpr unsigned kWelcomeMessage = 2;    // header: Welcome
inline constexpr unsigned kImmediateMessage = 3;  // header: Immediate

struct Welcome {
  uint32_t accepted;
};
struct Immediate {
  ChannelId channel;
  uint32_t value;
};
static_assert(sizeof(Immediate) == 20);

struct Offer {
  ChannelId channel;
  ChannelPurpose purpose;
  std::string address;  // of a worker
};
std::string pack_offer(const Offer& offer);
std::optional<Offer> parse_offer(std::string_view bytes);

struct RegionName {
  uint32_t generation;
  uint64_t address;
  uint64_t bytes;
  std::string key;       // packed by UCX
  uint64_t domains = 0;  // the peer's memory domains that the key is for, a bit each
};
// The key's part for one of its domains.
std::string_view key_part(const RegionName& name, unsigned domain);
std::string pack_region(const RegionName& name);
std::optional<RegionName> parse_region(std::string_view bytes);

}  // namespace farpage::ucx
