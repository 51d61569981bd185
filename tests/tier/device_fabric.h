#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "transport/forwarding_fabric.h"

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

  class DeviceInitiator final : public Initiator {
   public:
    explicit DeviceInitiator(std::unique_ptr<Initiator> inner) : inner_(std::move(inner)) {}

    Result<RemoteRegion> import_region(RegionExport region) override {
      return inner_->import_region(std::move(region));
    }
    PostResult post(std::span<const Operation> operations, uint64_t deadline_ns) override {
      std::vector<Operation> own(operations.begin(), operations.end());
      for (Operation& operation : own) {
        for (Slice& slice : operation.local) slice.place = {};
      }
      return inner_->post(own, deadline_ns);
    }
    size_t poll(std::span<Completion> completions) override { return inner_->poll(completions); }
    void wait(uint64_t deadline_ns) override { inner_->wait(deadline_ns); }
    void close() override { inner_->close(); }

   private:
    std::unique_ptr<Initiator> inner_;
  };
};

}  // namespace farpage
