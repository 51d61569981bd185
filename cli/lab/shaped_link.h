#pragma once

#include <memory>

#include "cli/client/node_connection.h"
#include "sim/fault/shaped_fabric.h"

namespace farpage {

// Has `options` open a connection over a link that can be made slower than it is. Afterwards, and
// as long as the connection lives, the returned pointer leads to that link.
inline std::shared_ptr<fault::ShapedFabric*> shape_link(ConnectOptions& options) {
  auto shaped = std::make_shared<fault::ShapedFabric*>(nullptr);
  options.wrap_fabric = [shaped](Fabric& fabric, const Clock& clock) -> std::unique_ptr<Fabric> {
    auto made = std::make_unique<fault::ShapedFabric>(fabric, clock);
    *shaped = made.get();
    return made;
  };
  return shaped;
}

}  // namespace farpage
