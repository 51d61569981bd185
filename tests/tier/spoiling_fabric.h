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

  Result<PassiveChannel> offer_channel(ChannelPurpose purpose) override {
    auto passive = ForwardingFabric::offer_channel(purpose);
    passive->channel = std::make_unique<SpoilingChannel>(std::move(passive->channel), *this);
    return passive;
  }

  uint64_t place_bytes = 512 + sizeof(PageHeader);
  std::function<void(std::byte* place)> spoil;
  bool twice = false;  // each immediate

 private:
  class SpoilingChannel final : public Channel {
   public:
    SpoilingChannel(std::unique_ptr<Channel> channel, SpoilingFabric& fabric)
        : channel_(std::move(channel)), fabric_(fabric) {}
    Result<Region> allocate_writable(uint64_t bytes) override {
      auto region = channel_->allocate_writable(bytes);
      memory_ = {region->data(), bytes};
      return region;
    }
    Result<RemoteRegion> import_region(RegionExport region) override {
      return channel_->import_region(std::move(region));
    }
    PostResult post(std::span<const Operation> operations, uint64_t deadline_ns) override {
      return channel_->post(operations, deadline_ns);
    }
    size_t poll(std::span<Completion> completions) override {
      size_t count = channel_->poll(completions.first(completions.size() / 2));
      if (fabric_.twice) {
        std::copy_n(completions.begin(), count, completions.begin() + static_cast<int>(count));
        count *= 2;
      }
      const uint64_t place_bytes = fabric_.place_bytes;
      for (size_t at = 0; count > 0 && fabric_.spoil && at < memory_.size(); at += place_bytes) {
        fabric_.spoil(memory_.data() + at);
      }
      return count;
    }
    void wait(uint64_t deadline_ns) override { channel_->wait(deadline_ns); }
    void close() override { channel_->close(); }

   private:
    std::unique_ptr<Channel> channel_;
    SpoilingFabric& fabric_;
    std::span<std::byte> memory_;
  };
};

}  // namespace farpage
