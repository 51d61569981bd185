#pragma once

#include "transport/forwarding_fabric.h"

namespace farpage {

// As another fabric, but that no node can reach what a client offers over it.
class CannotPush final : public ForwardingFabric {
 public:
  explicit CannotPush(Fabric& fabric)
      : ForwardingFabric(fabric), capabilities_(fabric.capabilities()) {
    capabilities_.pushes = false;
  }
  const Capabilities& capabilities() const override { return capabilities_; }

 private:
  Capabilities capabilities_;
};

}  // namespace farpage
