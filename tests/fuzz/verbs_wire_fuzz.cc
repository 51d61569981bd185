// The first byte chooses what the rest is: a channel's offer, or a region, with its size in front.
#include <cstdint>
#include <cstring>
#include <string>

#include "base/check.h"
#include "transport/verbs/wire.h"

namespace farpage::verbs {
namespace {

// A message that is taken says the same when it is encoded again.
void attack_offer(const std::string& bytes) {
  const auto offer = decode_offer(bytes);
  if (!offer) return;
  FARPAGE_CHECK(!offer->endpoints.empty() && offer->endpoints.size() <= kMaxDevices);
  const auto again = decode_offer(encode_offer(*offer));
  FARPAGE_CHECK(again.has_value() && again->channel == offer->channel);
  FARPAGE_CHECK(again->endpoints.size() == offer->endpoints.size());
  for (size_t i = 0; i < offer->endpoints.size(); ++i) {
    FARPAGE_CHECK(offer->endpoints[i].port() != 0);
    FARPAGE_CHECK(again->endpoints[i].port() == offer->endpoints[i].port());
    FARPAGE_CHECK(again->endpoints[i].host() == offer->endpoints[i].host());
  }
}

void attack_region(const std::string& text) {
  uint64_t bytes = 0;
  if (text.size() < sizeof bytes) return;
  std::memcpy(&bytes, text.data(), sizeof bytes);
  const std::string rest = text.substr(sizeof bytes);
  const auto region = decode_region(rest, bytes);
  if (!region) return;
  FARPAGE_CHECK(region->paths > 0 && region->paths <= kMaxDevices);
  FARPAGE_CHECK(region->address + bytes >= region->address);
  FARPAGE_CHECK(encode_region(*region) == rest);
}

}  // namespace
}  // namespace farpage::verbs

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  if (bytes == 0) return 0;
  const std::string rest(reinterpret_cast<const char*>(data) + 1, bytes - 1);
  if (data[0] % 2 == 0) {
    farpage::verbs::attack_offer(rest);
  } else {
    farpage::verbs::attack_region(rest);
  }
  return 0;
}
