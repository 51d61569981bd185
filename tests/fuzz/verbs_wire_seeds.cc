// Writes the seeds of verbs_wire_fuzz into a folder: verbs_wire_seeds FOLDER
#include <cstdio>
#include <fstream>
#include <string>

#include "base/clock.h"
#include "net/address/resolve.h"
#include "transport/verbs/wire.h"

namespace farpage::verbs {
namespace {

Endpoint endpoint(const char* host, uint16_t port) {
  Address address;
  address.host = host;
  address.port = port;
  return resolve(address, ResolveFor::kConnect, kNever).value()[0];
}

std::string offer(size_t paths) {
  OfferWire wire;
  for (size_t path = 0; path < paths; ++path) {
    const auto port = static_cast<uint16_t>(7010 + path);
    wire.endpoints.push_back(endpoint(path % 2 == 0 ? "10.9.0.1" : "fd00::1", port));
  }
  return '\0' + encode_offer(wire);
}

std::string region(uint64_t bytes, const RegionWire& wire) {
  return '\1' + std::string(reinterpret_cast<const char*>(&bytes), sizeof bytes) +
         encode_region(wire);
}

bool write(const std::string& folder, const char* name, const std::string& bytes) {
  std::ofstream file(folder + "/" + name, std::ios::binary);
  file << bytes;
  return file.good();
}

bool write_seeds(const std::string& folder) {
  const RegionWire small = {0x7000'0000'0000, 1, {17}};
  const RegionWire all_paths = {4096, kMaxDevices, {1, 2, 3, 4, 5, 6, 7, ~0u}};
  const RegionWire last = {UINT64_MAX - 4096, 2, {0, 1}};
  return write(folder, "offer_one_path", offer(1)) && write(folder, "offer_two_paths", offer(2)) &&
         write(folder, "offer_eight_paths", offer(kMaxDevices)) &&
         write(folder, "offer_too_many_paths", offer(kMaxDevices + 1)) &&
         write(folder, "offer_half", offer(2).substr(0, 40)) &&
         write(folder, "region_one_path", region(1 << 20, small)) &&
         write(folder, "region_eight_paths", region(64, all_paths)) &&
         write(folder, "region_up_to_the_last_address", region(4096, last)) &&
         write(folder, "region_beyond_the_last_address", region(4097, last)) &&
         write(folder, "region_half", region(64, all_paths).substr(0, 30));
}

}  // namespace
}  // namespace farpage::verbs

int main(int count, char** arguments) {
  if (count != 2) {
    std::fprintf(stderr, "usage: verbs_wire_seeds FOLDER\n");
    return 2;
  }
  return farpage::verbs::write_seeds(arguments[1]) ? 0 : 1;
}
