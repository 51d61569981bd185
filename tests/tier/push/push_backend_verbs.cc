#include "tests/tier/push/push_backend.h"
#include "transport/verbs/verbs_fabric.h"

namespace farpage {

std::unique_ptr<Fabric> make_push_fabric() {
  return verbs::make_verbs_fabric({.devices = {"rxe0"}}).value();
}

std::vector<std::string> push_node_arguments() {
  return {"--backend", "verbs", "--set", "rdma.devices=rxe0"};
}

}  // namespace farpage
