#pragma once

#include <memory>
#include <utility>

#include "transport/fabric.h"

namespace farpage {

// A fabric that is another one, which outlives it, but for what is overridden.
class ForwardingFabric : public Fabric {
 public:
  explicit ForwardingFabric(Fabric& fabric) : fabric_(fabric) {}

  const Capabilities& capabilities() const override { return fabric_.capabilities(); }
  Result<Region> allocate_readable(uint64_t bytes) override {
    return fabric_.allocate_readable(bytes);
  }
  Result<Region> register_local(const MemoryRange& range) override {
    return fabric_.register_local(range);
  }
  Result<RegionExport> export_region(const Region& region) override {
    return fabric_.export_region(region);
  }
  Result<OfferedTarget> offer_channel(ChannelPurpose purpose) override {
    return fabric_.offer_channel(purpose);
  }
  Result<std::unique_ptr<Initiator>> connect(ChannelOffer offer, uint64_t deadline_ns) override {
    return fabric_.connect(std::move(offer), deadline_ns);
  }

 protected:
  Fabric& inner() { return fabric_; }

 private:
  Fabric& fabric_;
};

}  // namespace farpage
