#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/log.h"
#include "transport/verbs/connection.h"
#include "transport/verbs/target.h"

namespace farpage::verbs {

// Takes the connections of a fabric's peers, on every device, on a thread of its own, and hands
// each to the channel that it names. Thread-safe.
class ChannelListener {
 public:
  // `seen`: where it counts what it refuses.
  static Result<std::unique_ptr<ChannelListener>> listen(std::shared_ptr<const Devices> devices,
                                                         std::shared_ptr<PortEvents> seen);
  ~ChannelListener();

  // Where peers reach each device.
  const std::vector<Endpoint>& endpoints() const { return endpoints_; }
  // Connections for this channel are let in until it is withdrawn, as its owner does when it
  // closes.
  void offer(const ChannelId& channel, const std::shared_ptr<TargetEnd>& end);
  void withdraw(const ChannelId& channel);
  // Channels that are offered and have not been withdrawn.
  size_t offers() const;

 private:
  ChannelListener() = default;
  Result<void> bind(size_t device);
  void serve();
  void handle(rdma_cm_event* event);
  void requested(rdma_cm_event* event);
  void reject(rdma_cm_id* request, size_t device, uint32_t sent, uint32_t taken);
  void ended(rdma_cm_event* event);

  std::shared_ptr<const Devices> devices_;
  EventChannel events_;
  std::vector<CmId> listening_;  // by device
  std::vector<Endpoint> endpoints_;
  UniqueFd stop_;

  std::shared_ptr<PortEvents> seen_;
  mutable std::mutex mutex_;  // of what follows
  std::map<ChannelId, std::weak_ptr<TargetEnd>> offers_;

  WarningLimiter warnings_;  // the thread's alone
  std::thread thread_;
};

}  // namespace farpage::verbs
