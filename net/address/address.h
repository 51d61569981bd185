#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace farpage {

// Where a node listens or is reached: the path of a Unix socket, or tcp://HOST:PORT with a name, an
// IPv4 address, or an IPv6 address in brackets. HOST:PORT alone is neither.
struct Address {
  std::string path;  // a Unix socket; empty: TCP
  std::string host;
  uint16_t port = 0;  // 0: any free one, to listen on

  bool is_tcp() const { return path.empty(); }
};

Result<Address> parse_address(std::string_view text);
// As parse_address takes it.
std::string format_address(const Address& address);

// Without the scheme, HOST:PORT, for what is reached over TCP alone.
Result<Address> parse_host_port(std::string_view text);
std::string format_host_port(const Address& address);

}  // namespace farpage
