#pragma once

#include <memory>

#include "transport/fabric.h"

namespace farpage::shm {

// Processes of one host. Peers map a node's memfd read-only, and their own staging writable; the
// control plane must be able to carry descriptors (a Unix socket).
std::unique_ptr<Fabric> make_shm_fabric();

}  // namespace farpage::shm
