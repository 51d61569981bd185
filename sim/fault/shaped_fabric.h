#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "sim/fault/shaped_link.h"
#include "transport/forwarding_fabric.h"

namespace farpage::fault {

// Another fabric, whose initiators share one link of a latency and a bandwidth that are set,
// and not those of the machine: for measurements. Until it is shaped it is the other fabric.
//
// `inner` and `clock` outlive it and its channels. Thread-safe as every fabric.
class ShapedFabric final : public ForwardingFabric {
 public:
  ShapedFabric(Fabric& inner, const Clock& clock);

  // For what is posted from now on. A link that is faster than the real one changes nothing.
  void shape(const LinkShape& shape) { link_->set(shape); }

  const Capabilities& capabilities() const override { return capabilities_; }
  Result<std::unique_ptr<Initiator>> connect(ChannelOffer offer, uint64_t deadline_ns) override;

 private:
  const Clock& clock_;
  const std::string path_;
  Capabilities capabilities_;
  const std::shared_ptr<ShapedLink> link_ = std::make_shared<ShapedLink>();
};

}  // namespace farpage::fault
