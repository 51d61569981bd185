#include "cli/backend.h"

#include "transport/shm/shm_fabric.h"

namespace farpage {

Result<std::unique_ptr<Fabric>> make_backend(const std::string& name) {
  if (name == "shm") return shm::make_shm_fabric();
  return fail(Code::kInvalid, "unknown backend '" + name + "'; there is: shm");
}

}  // namespace farpage
