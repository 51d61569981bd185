#include "tests/tier/push/push_backend.h"
#include "transport/shm/shm_fabric.h"

namespace farpage {

std::unique_ptr<Fabric> make_push_fabric() {
  return shm::make_shm_fabric();
}

std::vector<std::string> push_node_arguments() {
  return {"--backend", "shm"};
}

}  // namespace farpage
