#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "transport/forwarding_fabric.h"
#include "transport/forwarding_initiator.h"

namespace farpage {

// Another fabric, of whose read channels it counts how they are waited for. One lane at a time;
// the numbers in any thread.
class WatchedFabric final : public ForwardingFabric {
 public:
  using ForwardingFabric::ForwardingFabric;

  // From now on no completion is told, until the channels have been armed so often.
  void hold(uint64_t arms) { watch_.release_at = watch_.arms + arms; }
  // Waited on in place of the channels' own from now on; -1: no longer.
  void stand_in(int descriptor) { watch_.descriptor = descriptor; }

  uint64_t arms() const { return watch_.arms; }
  // Of one channel alone.
  uint64_t waits() const { return watch_.waits; }

  Result<std::unique_ptr<Initiator>> connect(ChannelOffer offer, uint64_t deadline_ns) override {
    const bool reads = offer.purpose == ChannelPurpose::kRead;
    auto initiator = ForwardingFabric::connect(std::move(offer), deadline_ns);
    if (!initiator || !reads) return initiator;
    return std::make_unique<Watched>(std::move(*initiator), watch_);
  }

 private:
  struct Watch {
    std::atomic<uint64_t> arms = 0;
    std::atomic<uint64_t> waits = 0;
    std::atomic<uint64_t> release_at = 0;
    std::atomic<int> descriptor = -1;
  };

  class Watched final : public ForwardingInitiator {
   public:
    Watched(std::unique_ptr<Initiator> inner, Watch& watch)
        : ForwardingInitiator(std::move(inner)), watch_(watch) {}

    size_t poll(std::span<Completion> completions) override {
      return watch_.arms < watch_.release_at ? 0 : ForwardingInitiator::poll(completions);
    }
    void wait(uint64_t deadline_ns) override {
      ++watch_.waits;
      ForwardingInitiator::wait(deadline_ns);
    }
    int descriptor() const override {
      const int descriptor = watch_.descriptor;
      return descriptor >= 0 ? descriptor : ForwardingInitiator::descriptor();
    }
    uint64_t arm() override {
      ++watch_.arms;
      return watch_.descriptor >= 0 ? kNever : ForwardingInitiator::arm();
    }
    uint64_t spin_ns() const override { return 0; }

   private:
    Watch& watch_;
  };

  Watch watch_;
};

}  // namespace farpage
