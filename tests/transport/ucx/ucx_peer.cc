// A node over UCX in a process of its own: ucx_peer TRANSPORTS FD. Writes to FD what the test needs
// to reach it, then serves until its standard input ends.

#include "tests/transport/ucx/ucx_peer.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "base/check.h"

namespace {

void tell(int fd, const std::string& bytes) {
  const auto length = static_cast<uint32_t>(bytes.size());
  FARPAGE_CHECK(::write(fd, &length, sizeof length) == sizeof length);
  FARPAGE_CHECK(::write(fd, bytes.data(), length) == static_cast<ssize_t>(length));
}

}  // namespace

int main(int argc, char** argv) {
  using namespace farpage;
  FARPAGE_CHECK(argc == 3);
  const int fd = std::atoi(argv[2]);
  ucx::UcxOptions options;
  options.trusted_clients = true;
  options.transports = argv[1];
  const auto fabric = ucx::make_ucx_fabric(options).value();
  const auto stage = fabric->offer_channel(ChannelPurpose::kStage).value();
  const Region pool = fabric->allocate_readable(kPeerBytes).value();
  const Region staging = stage.target->allocate_writable(kPeerBytes).value();
  std::memset(pool.data(), kPeerFill, kPeerBytes);
  const auto read = fabric->offer_channel(ChannelPurpose::kRead).value();
  for (const std::string& told :
       {read.offer.opaque, stage.offer.opaque, fabric->export_region(pool).value().opaque,
        fabric->export_region(staging).value().opaque}) {
    tell(fd, told);
  }
  char byte = 0;
  return ::read(STDIN_FILENO, &byte, 1) == 0 ? 0 : 1;
}
