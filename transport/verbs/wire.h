#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "net/security/greeting.h"
#include "transport/memory.h"
#include "transport/verbs/paths/device.h"

namespace farpage::verbs {

// Messages on the control plane and in rdma_cm's private data: docs/formats/verbs.md. Little
// endian. The decoder treats every byte as hostile.

// A channel's offer: where each path leads, and which channel it is.
struct OfferWire {
  ChannelId channel = {};
  std::vector<Endpoint> endpoints;  // 1 to kMaxDevices
};
std::string encode_offer(const OfferWire& offer);
std::optional<OfferWire> decode_offer(const std::string& opaque);

// A region: the node's own address of its first byte, and a key for each path of the channels that
// reach it.
struct RegionWire {
  uint64_t address = 0;
  uint32_t paths = 0;
  std::array<uint32_t, kMaxDevices> keys = {};
};
std::string encode_region(const RegionWire& region);
std::optional<RegionWire> decode_region(const std::string& opaque, uint64_t bytes);

// Private data of a connection request. `owner` is drawn by who takes the offer up, and the same
// for all of its paths: no other can take one.
inline constexpr uint32_t kMagic = 0x31565046;  // "FPV1"
struct ConnectWire {
  uint32_t magic;
  uint32_t path;
  ChannelId channel;
  uint64_t owner;
  uint32_t packet_bytes =
      0;  // that its port sends, which decides for both ends; 0: it does not say
  uint32_t zero = 0;
};
static_assert(sizeof(ConnectWire) == 40);  // rdma_cm takes 56 at most

// Private data of a rejection that has a reason to tell.
struct RejectWire {
  uint32_t magic;
  uint32_t packet_bytes;  // the port here takes no larger ones
};
static_assert(sizeof(RejectWire) == 8);

}  // namespace farpage::verbs
