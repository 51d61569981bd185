#pragma once

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "tests/transport/cuda/fake/fake_control.h"
#include "transport/forwarding_fabric.h"
#include "transport/forwarding_initiator.h"
#include "transport/mapped_peer.h"

namespace farpage {

// What a NIC of NicFabric can do, and what it has done. Set before it is used.
struct NicSettings {
  bool takes_dma_bufs = true;
  bool takes_addresses = false;  // as with nvidia-peermem
  // Of a payload that is about to be written to a device.
  std::function<void(std::span<std::byte> landed)> spoil = nullptr;
  int dma_buf = -1;  // that was registered last, and its file
  ino_t inode = 0;
  std::atomic<int> registered{0};    // ranges of devices, now
  std::atomic<uint64_t> written{0};  // payloads, to devices
};

// A fabric with a NIC that writes to memory of the fake's devices, as FakeControl::nic_write(): a
// read for a device's memory lands in memory of the host's first, and is written once it has ended.
// Both outlive it. Regions of it are used over it alone.
class NicFabric final : public ForwardingFabric {
 public:
  NicFabric(Fabric& fabric, const cuda::FakeControl& fake, NicSettings& nic)
      : ForwardingFabric(fabric), fake_(fake), nic_(nic), capabilities_(fabric.capabilities()) {
    capabilities_.reaches_devices = true;
    capabilities_.checksums_landing = false;  // it is the NIC that moves the bytes
  }

  const Capabilities& capabilities() const override { return capabilities_; }
  Result<Region> register_local(const MemoryRange& range) override {
    if (range.place.is_host()) return inner().register_local(range);
    if (auto taken = take(range); !taken) return tl::unexpected(taken.error());
    auto backing = std::make_unique<Shadow>(range, nic_);
    auto region = inner().register_local({backing->memory.data(), backing->memory.size()});
    if (!region) return region;
    backing->region = std::move(*region);
    const auto key = reinterpret_cast<uint64_t>(backing.get());
    return Region(range, Access::kLocal, key, std::move(backing));
  }
  Result<std::unique_ptr<Initiator>> connect(ChannelOffer offer, uint64_t deadline_ns) override {
    auto connected = inner().connect(std::move(offer), deadline_ns);
    if (!connected) return connected;
    return std::make_unique<Nic>(std::move(*connected), fake_, nic_, capabilities_.max_in_flight);
  }

 private:
  struct Shadow final : Region::Backing {
    Shadow(const MemoryRange& of, NicSettings& settings)
        : range(of), nic(settings), memory(of.bytes) {
      ++nic.registered;
    }
    ~Shadow() override { --nic.registered; }

    const MemoryRange range;
    NicSettings& nic;
    std::vector<std::byte> memory;
    Region region;  // of it
  };

  class Nic final : public ForwardingInitiator, public MappedPeer {
   public:
    Nic(std::unique_ptr<Initiator> inner, const cuda::FakeControl& fake, NicSettings& nic,
        uint32_t most)
        : ForwardingInitiator(std::move(inner)), fake_(fake), nic_(nic), flights_(most) {
      for (uint32_t i = most; i-- > 0;) free_.push_back(i);
    }

    std::shared_ptr<const Mapping> mapping_of(const RemoteRegion& region) const override {
      const auto* mapped = dynamic_cast<const MappedPeer*>(&inner());
      return mapped == nullptr ? nullptr : mapped->mapping_of(region);
    }
    size_t room() const override {
      return std::min(inner().room(), free_.size()) - written_.size();
    }
    Operation& next() override { return written_.emplace_back(); }
    Status post() override {
      for (Operation& operation : written_) {
        Flight& flight = flights_[free_.back()];
        flight = {.tag = operation.tag};
        operation.tag = free_.back();
        free_.pop_back();
        for (int i = 0; i < operation.local_count; ++i) {
          Slice& slice = operation.local[static_cast<size_t>(i)];
          if (slice.place.is_host()) continue;
          auto* const shadow = reinterpret_cast<Shadow*>(slice.local_key);
          flight.device = reinterpret_cast<uint64_t>(slice.data);
          const auto offset = static_cast<uint64_t>(slice.data - shadow->range.data);
          slice = shadow->region.slice(offset, slice.bytes);
          flight.landed = {slice.data, slice.bytes};
        }
        inner().next() = operation;
      }
      written_.clear();
      return inner().post();
    }
    size_t poll(std::span<Completion> completions) override {
      const size_t count = inner().poll(completions);
      for (Completion& completion : completions.first(count)) {
        const auto index = static_cast<uint32_t>(completion.tag);
        const Flight& flight = flights_[index];
        completion.tag = flight.tag;
        if (completion.outcome == Outcome::kOk && flight.device != 0) write(flight);
        free_.push_back(index);
      }
      return count;
    }

   private:
    struct Flight {
      uint64_t tag = 0;
      uint64_t device = 0;  // 0: nothing of it is for a device
      std::span<std::byte> landed = {};
    };

    void write(const Flight& flight) {
      if (nic_.spoil) nic_.spoil(flight.landed);
      ++nic_.written;
      fake_.nic_write(flight.device, flight.landed.data(), flight.landed.size(),
                      cuda::NicWrite::kHeldBack);
    }

    const cuda::FakeControl& fake_;
    NicSettings& nic_;
    std::vector<Flight> flights_;    // by the tag that the inner initiator knows
    std::vector<uint32_t> free_;     // of these
    std::deque<Operation> written_;  // that the caller writes
  };

  // As a driver says it.
  Result<void> take(const MemoryRange& range) const {
    if (range.dma_buf < 0) {
      if (nic_.takes_addresses) return {};
      return fail(Code::kUnavailable, "this NIC takes no addresses of devices");
    }
    cuda::FakeHandle handle;
    struct stat file = {};
    const bool is_open = ::fstat(range.dma_buf, &file) == 0;
    nic_.dma_buf = range.dma_buf;
    nic_.inode = file.st_ino;
    if (!is_open || !fake_.describe_handle(range.dma_buf, &handle)) {
      return fail(Code::kInvalid, "this is no dma-buf");
    }
    if (!nic_.takes_dma_bufs) return fail(Code::kUnavailable, "this NIC takes no dma-bufs");
    if (handle.bytes >= range.bytes) return {};
    return fail(Code::kInvalid, fmt::format("the dma-buf has {} bytes", handle.bytes));
  }

  const cuda::FakeControl& fake_;
  NicSettings& nic_;
  Capabilities capabilities_;
};

}  // namespace farpage
