#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "transport/fabric.h"
#include "transport/verbs/connection.h"
#include "transport/verbs/fixed_queue.h"
#include "transport/verbs/registration.h"

namespace farpage::verbs {

class ChannelListener;

// Counts of a fabric's targets on each of its devices. Any thread.
struct PortEvents {
  std::array<std::atomic<uint64_t>, kMaxDevices> connections = {};  // open now
  std::array<std::atomic<uint64_t>, kMaxDevices> refused = {};      // connections
  std::array<std::atomic<uint64_t>, kMaxDevices> immediates = {};
};

// State that a target and the listener share: the queue pairs of its peer's connections. Reads ask
// nothing of it; writes bring immediates. The peer's connections come on the listener's thread.
//
// A read channel's queue pairs are in their devices' domains, whose memory peers may only read. A
// stage channel has one queue pair, on whichever device its peer comes first, and domains of its
// own: a key binds to a domain, not to a peer.
class TargetEnd {
 public:
  static constexpr uint32_t kReceives = 512;  // a peer may send as many immediates unasked

  static Result<std::shared_ptr<TargetEnd>> make(const std::shared_ptr<const Devices>& devices,
                                                 ChannelPurpose purpose,
                                                 std::shared_ptr<PortEvents> seen);
  ~TargetEnd();

  // A connection request on a device, which asks for so many reads on the wire. False: not for who
  // took the channel up first. True: its context is this end, for as long as it is there.
  bool accept(CmId& request, size_t device, const ConnectWire& introduction, uint8_t reads_asked);
  // The connection, if it is one of this channel's, for the caller to end outside of any lock.
  CmId release(const rdma_cm_id* id);

  // Of a stage channel.
  Result<Region> allocate_writable(const std::shared_ptr<TargetEnd>& self, uint64_t bytes);
  size_t poll(std::span<uint32_t> immediates);
  void wait(uint64_t deadline_ns);

  // Ends all of its queue pairs: afterwards nothing reaches the memory through them.
  void close();

 private:
  TargetEnd(std::shared_ptr<const Devices> devices, ChannelPurpose purpose,
            std::shared_ptr<PortEvents> seen)
      : devices_(std::move(devices)), purpose_(purpose), seen_(std::move(seen)) {}
  bool post_receives(ibv_qp* queue_pair, uint32_t count);
  void harvest();
  // The connection of a device, which counts as open no more.
  CmId take_connection(size_t device);

  struct OwnDomains {
    explicit OwnDomains(std::shared_ptr<const Devices> of) : devices(std::move(of)) {}
    ~OwnDomains();
    Result<void> make();

    std::shared_ptr<const Devices> devices;
    std::array<ibv_pd*, kMaxDevices> domains = {};
  };

  const std::shared_ptr<const Devices> devices_;
  const ChannelPurpose purpose_;
  const std::shared_ptr<PortEvents> seen_;
  std::shared_ptr<OwnDomains> own_;  // a stage channel's

  std::mutex mutex_;                                                // of what follows
  std::array<std::optional<CompletionQueue>, kMaxDevices> queues_;  // by device
  std::array<CmId, kMaxDevices> connections_;                       // after queues_
  std::optional<uint64_t> owner_;
  FixedQueue<uint32_t, kReceives> arrived_;  // immediates
  bool closed_ = false;
  UniqueFd closing_;  // becomes readable with close()
};

class VerbsTarget final : public Target {
 public:
  // `listener`: what the connections' events go through; it outlives them.
  VerbsTarget(const ChannelId& id, std::shared_ptr<TargetEnd> end,
              std::shared_ptr<ChannelListener> listener)
      : id_(id), listener_(std::move(listener)), end_(std::move(end)) {}
  ~VerbsTarget() override { close(); }

  Result<Region> allocate_writable(uint64_t bytes) override {
    return end_->allocate_writable(end_, bytes);
  }
  size_t poll(std::span<uint32_t> immediates) override { return end_->poll(immediates); }
  void wait(uint64_t deadline_ns) override { end_->wait(deadline_ns); }
  void close() override;

 private:
  const ChannelId id_;
  const std::shared_ptr<ChannelListener> listener_;
  const std::shared_ptr<TargetEnd> end_;
};

}  // namespace farpage::verbs
