#pragma once

#include <ucp/api/ucp.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>

#include "transport/fabric.h"
#include "transport/ucx/wire.h"
#include "transport/ucx/worker.h"

namespace farpage::ucx {

class TargetWorker;

// State that a target and the thread that serves it share.
class TargetState {
 public:
  // A peer that sends more before anyone looks is cut off.
  static constexpr size_t kMostImmediates = 65'536;

  TargetState(const ChannelId& channel, ChannelPurpose channel_purpose)
      : id(channel), purpose(channel_purpose) {}

  const ChannelId id;
  const ChannelPurpose purpose;
  // Under the lock of the TargetWorker:
  ucp_ep_h endpoint = nullptr;  // once a peer has taken it up
  bool is_taken = false;
  bool has_failed = false;

  bool push(uint32_t immediate);  // false: there are too many
  size_t pop(std::span<uint32_t> immediates);
  void wait(uint64_t deadline_ns);
  void close();

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<uint32_t> immediates_;
  bool closed_ = false;
};

// The end that owns the memory. Its peer moves the bytes; the fabric's thread hears the immediates.
class UcxTarget final : public Target {
 public:
  UcxTarget(std::shared_ptr<TargetState> state, std::shared_ptr<TargetWorker> worker)
      : state_(std::move(state)), worker_(std::move(worker)) {}
  ~UcxTarget() override { close(); }

  Result<Region> allocate_writable(uint64_t bytes) override;
  size_t poll(std::span<uint32_t> immediates) override { return state_->pop(immediates); }
  void wait(uint64_t deadline_ns) override { state_->wait(deadline_ns); }
  void close() override;

 private:
  std::shared_ptr<TargetState> state_;
  std::shared_ptr<TargetWorker> worker_;
};

}  // namespace farpage::ucx
