#pragma once

#include <span>
#include <string>
#include <string_view>

#include "backends/registration.h"
#include "base/status.h"
#include "net/address/address.h"

namespace farpage {

// Every backend, of this build or not, in the order in which messages name them.
std::span<const BackendRegistration* const> every_backend();
// Those of this build: "shm, tcp".
std::string built_backends();

// Refuses unknown names, and a backend that this build does not have.
Result<const BackendRegistration*> find_backend(std::string_view name);
// That of nodes at kUnixSocket or kTcpPort of which nothing else is said.
const BackendRegistration& natural_backend(NodesAt nodes_at);
// The backend for a node at this address: what was asked for, or, if that is empty, the natural
// one. Refuses what find_backend does, and a backend that has no nodes at such addresses.
Result<const BackendRegistration*> choose_backend(const std::string& asked, const Address& address);

}  // namespace farpage
