#include "transport/fault/shaped_fabric.h"

#include "transport/fault/shaped_channel.h"

namespace farpage::fault {

ShapedFabric::ShapedFabric(Fabric& inner, const Clock& clock)
    : ForwardingFabric(inner),
      clock_(clock),
      path_(std::string(inner.capabilities().path) + ", over a link that is shaped"),
      capabilities_(inner.capabilities()) {
  capabilities_.path = path_;
}

Result<std::unique_ptr<Channel>> ShapedFabric::connect(ChannelOffer offer, uint64_t deadline_ns) {
  auto channel = inner().connect(std::move(offer), deadline_ns);
  if (!channel) return channel;
  return std::make_unique<ShapedChannel>(std::move(*channel), link_, clock_,
                                         capabilities_.max_in_flight);
}

}  // namespace farpage::fault
