#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "transport/forwarding_fabric.h"
#include "transport/forwarding_initiator.h"

namespace farpage {

// Another fabric that lands pages in a GPU's memory too, for which host memory stands in.
class DeviceFabric final : public ForwardingFabric {
 public:
  using ForwardingFabric::ForwardingFabric;

  Result<Region> register_local(const MemoryRange& range) override {
    auto own = ForwardingFabric::register_local({range.data, range.bytes});
    if (!own) return own;
    const uint64_t key = own->slice(0, 0).local_key;
    return Region(range, Access::kLocal, key, std::make_unique<Backing>(std::move(*own)));
  }
  Result<std::unique_ptr<Initiator>> connect(ChannelOffer offer, uint64_t deadline_ns) override {
    auto initiator = ForwardingFabric::connect(std::move(offer), deadline_ns);
    if (!initiator) return initiator;
    return std::make_unique<DeviceInitiator>(std::move(*initiator));
  }

 private:
  struct Backing final : Region::Backing {
    explicit Backing(Region region) : own(std::move(region)) {}
    Region own;
  };

  class DeviceInitiator final : public ForwardingInitiator {
   public:
    using ForwardingInitiator::ForwardingInitiator;

    Operation& next() override { return written_.emplace_back(); }
    size_t room() const override { return ForwardingInitiator::room() - written_.size(); }
    Status post() override {
      for (Operation& operation : written_) {
        for (Slice& slice : operation.local) slice.place = {};
        ForwardingInitiator::next() = operation;
      }
      written_.clear();
      return ForwardingInitiator::post();
    }

   private:
    std::vector<Operation> written_;
  };
};

}  // namespace farpage
