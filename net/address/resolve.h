#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "net/address/address.h"

namespace farpage {

struct Endpoint {
  sockaddr_storage storage = {};
  socklen_t bytes = 0;

  const sockaddr* address() const { return reinterpret_cast<const sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
  std::string host() const;  // in numbers
  uint16_t port() const;
};

enum class ResolveFor : uint8_t { kConnect, kListen };

// Of a host that is given in numbers; nothing: it is a name. Does not block.
std::optional<std::vector<Endpoint>> resolve_number(const Address& address, ResolveFor purpose);

// The addresses behind a TCP address's host, in the resolver's order. Blocks until the deadline at
// most.
Result<std::vector<Endpoint>> resolve(const Address& address, ResolveFor purpose,
                                      uint64_t deadline_ns);

}  // namespace farpage
