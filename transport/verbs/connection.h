#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cstdint>
#include <functional>
#include <memory>

#include "base/status.h"
#include "transport/verbs/paths/device.h"
#include "transport/verbs/wire.h"

namespace farpage::verbs {

// The transport's own retries are a backstop: who waits has a deadline, and closes, and a channel
// with several paths leaves one that is silent sooner. An acknowledgement is waited for 4.096 µs ×
// 2^14 = 67 ms; six retries hold on a path that loses one packet in ten, and give up on a silent
// peer after about half a second.
inline constexpr uint8_t kAckTimeoutExponent = 14;
inline constexpr uint8_t kRetries = 6;
// A receiver that has no receive posted is asked again 0.01 ms later, six times.
inline constexpr uint8_t kReceiverNotReadyRetries = 6;
inline constexpr uint8_t kMinReceiverNotReadyTimer = 1;
// Reads that a queue pair has under way on the wire, where both devices allow as many.
inline constexpr uint8_t kReadsOnTheWire = 16;

struct EndCm {
  void operator()(rdma_event_channel* channel) const { ::rdma_destroy_event_channel(channel); }
  void operator()(rdma_cm_id* id) const;  // with its queue pair
};
using EventChannel = std::unique_ptr<rdma_event_channel, EndCm>;
using CmId = std::unique_ptr<rdma_cm_id, EndCm>;

// Before a connection is made, at either end.
void set_ack_timeout(rdma_cm_id* id);

// The descriptor does not block.
Result<EventChannel> make_event_channel();

// A completion queue with the channel that wakes who waits for it.
class CompletionQueue {
 public:
  static Result<CompletionQueue> make(ibv_context* context, uint32_t entries);
  CompletionQueue() = default;
  CompletionQueue(CompletionQueue&& other) noexcept;
  CompletionQueue& operator=(CompletionQueue&& other) noexcept;
  ~CompletionQueue() { reset(); }

  ibv_cq* get() const { return queue_; }
  int fd() const { return channel_->fd; }
  // Its descriptor becomes readable with the next completion; look at the queue once more
  // afterwards.
  void arm() { ::ibv_req_notify_cq(queue_, 0); }
  // Takes what has made the descriptor readable.
  void acknowledge();

 private:
  void reset();

  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* queue_ = nullptr;
};

// The initiator's end of one path.
struct Connection {
  size_t device = 0;  // of Devices
  EventChannel events;
  CompletionQueue completions;
  CmId id;  // after both: it goes first
  uint32_t send_depth = 0;
  uint32_t send_slices = 0;  // of one work request

  // Whether the peer or the device has ended it.
  bool lost();
};

// Blocks until the peer has accepted, refused, the deadline has come, or soon after `cancelled`.
// `from`: the local device, or devices.size() where the kernel's routes decide. `refused`: the peer
// has answered that it does not want it.
Result<std::unique_ptr<Connection>> dial(const Devices& devices, size_t from, const Endpoint& to,
                                         const ConnectWire& introduction, uint64_t deadline_ns,
                                         const std::function<bool()>& cancelled, bool& refused);

}  // namespace farpage::verbs
