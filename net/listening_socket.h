#pragma once

#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"
#include "net/address/address.h"
#include "net/address/resolve.h"

namespace farpage {

struct BoundSocket {
  UniqueFd fd;        // not valid: none of them could be bound,
  int error = 0;      // errno of the last
  Endpoint endpoint;  // which one it is; with the port that was asked for
};

// For listen_on(): waits ten seconds for a name at most.
Result<std::vector<Endpoint>> resolve_to_listen(const Address& address);

// Not listening yet. A name may stand for addresses of which this machine does not have all (::1,
// say): the first that can be bound.
BoundSocket bind_first(const std::vector<Endpoint>& endpoints);

struct ListeningSocket {
  UniqueFd fd;      // does not block
  Address address;  // with the port that was chosen
};

// Of a TCP address. Refuses names that do not resolve and addresses that cannot be had, with a word
// on what to choose instead.
Result<ListeningSocket> listen_on(const Address& address);

}  // namespace farpage
