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
