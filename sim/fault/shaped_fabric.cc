#include "sim/fault/shaped_fabric.h"

#include "sim/fault/shaped_initiator.h"

namespace farpage::fault {

ShapedFabric::ShapedFabric(Fabric& inner, const Clock& clock)
    : ForwardingFabric(inner),
      clock_(clock),
      path_(std::string(inner.capabilities().path) + ", over a link that is shaped"),
      capabilities_(inner.capabilities()) {
  capabilities_.path = path_;
}

Result<std::unique_ptr<Initiator>> ShapedFabric::connect(ChannelOffer offer, uint64_t deadline_ns) {
  auto initiator = inner().connect(std::move(offer), deadline_ns);
  if (!initiator) return initiator;
  return std::make_unique<ShapedInitiator>(std::move(*initiator), link_, clock_,
                                           capabilities_.max_in_flight);
}

}  // namespace farpage::fault
