#include "backends/registration.h"
#include "doctor/backends/backend_shm.h"
#include "transport/shm/shm_fabric.h"

namespace farpage {

// It passes descriptors, which only a Unix socket carries.
const BackendRegistration kShmBackend = {
    .host = &doctor::kShmCheck,
    .nodes_at = NodesAt::kUnixSocket,
    .make = [](const FabricOptions&) -> Result<FabricOfBackend> {
      return FabricOfBackend{shm::make_shm_fabric()};
    },
};

}  // namespace farpage
