#include "transport/ucx/wire.h"

#include <bit>
#include <cstring>

#include "base/units.h"
#include "integrity/crc32c.h"

namespace farpage::ucx {
namespace {

constexpr uint32_t kOfferMagic = 0x4F435546;   // "FUCO"
constexpr uint32_t kRegionMagic = 0x52435546;  // "FUCR"
constexpr size_t kMostTailBytes = 64 * kKiB;
constexpr size_t kKeyHeadBytes = sizeof(uint64_t) + 1;

template <typename Head>
std::string pack(Head head, const std::string& tail) {
  head.crc = 0;
  std::string packed(reinterpret_cast<const char*>(&head), sizeof head);
  packed += tail;
  head.crc = crc32c(0, packed.data(), packed.size());
  std::memcpy(packed.data(), &head, sizeof head);
  return packed;
}

template <typename Head>
std::optional<Head> parse(std::string_view bytes, uint32_t magic) {
  Head head;
  if (bytes.size() <= sizeof head || bytes.size() > sizeof head + kMostTailBytes) return {};
  std::memcpy(&head, bytes.data(), sizeof head);
  Head unsigned_head = head;
  unsigned_head.crc = 0;
  const uint32_t crc = crc32c(0, &unsigned_head, sizeof head);
  const std::string_view tail = bytes.substr(sizeof head);
  if (head.magic != magic || head.crc != crc32c(crc, tail.data(), tail.size())) return {};
  return head;
}

// UCX's packed key: a bit for each memory domain, the kind of memory, and for each domain a length
// and as many bytes. UCX reads it without knowing where it ends.
std::optional<uint64_t> parse_domains(std::string_view key) {
  uint64_t domains = 0;
  if (key.size() < kKeyHeadBytes) return {};
  std::memcpy(&domains, key.data(), sizeof domains);
  size_t at = kKeyHeadBytes;
  for (int left = std::popcount(domains); left > 0; --left) {
    if (at >= key.size()) return {};
    at += 1 + static_cast<uint8_t>(key[at]);
  }
  if (at != key.size()) return {};
  return domains;
}

}  // namespace

uint64_t trailer_offset(uint64_t region_bytes) {
  return round_up(region_bytes, kTrailerBytes);
}

std::string pack_offer(const Offer& offer) {
  OfferHead head = {};
  head.magic = kOfferMagic;
  head.purpose = static_cast<uint32_t>(offer.purpose);
  head.address_bytes = static_cast<uint32_t>(offer.address.size());
  head.channel = offer.channel;
  return pack(head, offer.address);
}

std::optional<Offer> parse_offer(std::string_view bytes) {
  const auto head = parse<OfferHead>(bytes, kOfferMagic);
  if (!head || head->address_bytes != bytes.size() - sizeof *head) return {};
  if (head->purpose > static_cast<uint32_t>(ChannelPurpose::kStage)) return {};
  return Offer{head->channel, static_cast<ChannelPurpose>(head->purpose),
               std::string(bytes.substr(sizeof *head))};
}

std::string_view key_part(const RegionName& name, unsigned domain) {
  size_t at = kKeyHeadBytes;
  for (uint64_t before = name.domains & ((uint64_t{1} << domain) - 1); before != 0;
       before &= before - 1) {
    at += 1 + static_cast<uint8_t>(name.key[at]);
  }
  return std::string_view(name.key).substr(at + 1, static_cast<uint8_t>(name.key[at]));
}

std::string pack_region(const RegionName& name) {
  RegionHead head = {};
  head.magic = kRegionMagic;
  head.generation = name.generation;
  head.key_bytes = static_cast<uint32_t>(name.key.size());
  head.address = name.address;
  head.bytes = name.bytes;
  return pack(head, name.key);
}

std::optional<RegionName> parse_region(std::string_view bytes) {
  const auto head = parse<RegionHead>(bytes, kRegionMagic);
  if (!head || head->key_bytes != bytes.size() - sizeof *head) return {};
  if (head->bytes == 0 || head->bytes > kMaxRegionBytes) return {};
  if (head->address > UINT64_MAX - head->bytes - 2 * kTrailerBytes) return {};
  const std::string_view key = bytes.substr(sizeof *head);
  const auto domains = parse_domains(key);
  if (!domains) return {};
  return RegionName{head->generation, head->address, head->bytes, std::string(key), *domains};
}

}  // namespace farpage::ucx
