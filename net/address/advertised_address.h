#pragma once

#include <string>

#include "base/status.h"
#include "net/address/address.h"

namespace farpage {

// Whether an address leads nowhere but to the machine of who reads it: the loopback, by number or
// by name, or a Unix socket.
bool is_of_one_machine(const Address& address);

// Refuses an address that means something else to others than to who gives it: a wildcard,
// link-local without a zone, multicast, and any port. `whose`: "cluster.address", in messages. To
// listen on them is another matter.
Result<void> check_advertised(const Address& address, const std::string& whose);

}  // namespace farpage
