#pragma once

#include <array>
#include <memory>
#include <string>

#include "base/status.h"
#include "cli/backend_options.h"
#include "net/address.h"
#include "net/dial.h"
#include "transport/fabric.h"

namespace farpage {

// Those of this build.
inline constexpr auto kBackends = std::to_array<const char*>({
    "shm",
    "tcp",
#ifdef FARPAGE_HAS_VERBS
    "verbs",
#endif
#ifdef FARPAGE_HAS_UCX
    "ucx",
#endif
});

// The backend for a node at this address: what was asked for, or, if that is empty, shm for a Unix
// socket and tcp for tcp://. Refuses unknown names, and a backend that cannot work with the
// address.
Result<std::string> choose_backend(const std::string& asked, const Address& address);
// For those that start a node of their own: its name and nothing else.
Result<void> check_backend(const std::string& name);

// A client's.
Result<std::unique_ptr<Fabric>> make_client_fabric(const std::string& backend,
                                                   const BackendOptions& options,
                                                   const ClientCredentials& credentials);
// One whose address is that of the control plane alone: neither shm nor tcp.
Result<std::unique_ptr<Fabric>> make_own_way_fabric(const std::string& backend,
                                                    const BackendOptions& options);

}  // namespace farpage
