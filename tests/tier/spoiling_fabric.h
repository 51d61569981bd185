#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "integrity/page_header.h"
#include "transport/forwarding_fabric.h"

namespace farpage {

// Once it has been told to, it spoils each place before the page is looked at.
class SpoilingFabric final : public ForwardingFabric {
 public:
  using ForwardingFabric::ForwardingFabric;

  Result<OfferedTarget> offer_channel(ChannelPurpose purpose) override {
    auto offered = ForwardingFabric::offer_channel(purpose);
    offered->target = std::make_unique<SpoilingTarget>(std::move(offered->target), *this);
    return offered;
  }

  uint64_t place_bytes = 512 + sizeof(PageHeader);
  std::function<void(std::byte* place)> spoil;
  bool twice = false;  // each immediate

 private:
  class SpoilingTarget final : public Target {
   public:
    SpoilingTarget(std::unique_ptr<Target> target, SpoilingFabric& fabric)
        : target_(std::move(target)), fabric_(fabric) {}
    Result<Region> allocate_writable(uint64_t bytes) override {
      auto region = target_->allocate_writable(bytes);
      memory_ = {region->data(), bytes};
      return region;
    }
    size_t poll(std::span<uint32_t> immediates) override {
      size_t count = target_->poll(immediates.first(immediates.size() / 2));
      if (fabric_.twice) {
        std::copy_n(immediates.begin(), count, immediates.begin() + static_cast<int>(count));
        count *= 2;
      }
      const uint64_t place_bytes = fabric_.place_bytes;
      for (size_t at = 0; count > 0 && fabric_.spoil && at < memory_.size(); at += place_bytes) {
        fabric_.spoil(memory_.data() + at);
      }
      return count;
    }
    void wait(uint64_t deadline_ns) override { target_->wait(deadline_ns); }
    void close() override { target_->close(); }

   private:
    std::unique_ptr<Target> target_;
    SpoilingFabric& fabric_;
    std::span<std::byte> memory_;
  };
};

}  // namespace farpage
