#pragma once

#include <array>
#include <memory>
#include <string>

#include "base/status.h"
#include "cli/rdma_options.h"
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
});

// What the backends need besides an address.
struct BackendOptions {
  RdmaOptions rdma;
};

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
// One that shares no port with the control plane: neither shm's nor tcp's.
Result<std::unique_ptr<Fabric>> make_rdma_fabric(const std::string& backend,
                                                 const BackendOptions& options);

}  // namespace farpage
