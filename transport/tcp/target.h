#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include "transport/fabric.h"
#include "transport/tcp/exports.h"
#include "transport/tcp/offers.h"

namespace farpage::tcp {

// State that a target and its connection, on an I/O thread, share.
class TargetState {
 public:
  static constexpr size_t kMostImmediates = 512;

  TargetState(uint64_t channel_number, ChannelPurpose channel_purpose)
      : number(channel_number), purpose(channel_purpose) {}

  const uint64_t number;
  const ChannelPurpose purpose;

  bool is_closed() const { return closed_.load(); }

  // False: another peer has taken the channel up, or it is closed. `wake` makes the connection look
  // again: there is room for immediates, or it is to end.
  bool attach(std::function<void()> wake);
  // False: no room now; the connection is woken when there is.
  bool push(uint32_t immediate);

  size_t pop(std::span<uint32_t> immediates);
  void wait(uint64_t deadline_ns);
  void close();

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::array<uint32_t, kMostImmediates> immediates_;
  size_t head_ = 0;
  size_t count_ = 0;
  bool attached_ = false;
  bool full_ = false;  // the connection waits for room
  std::atomic<bool> closed_{false};
  std::function<void()> wake_;
};

// The end that owns the memory. No caller drives it: I/O threads move the bytes.
class TcpTarget final : public Target {
 public:
  // Offers itself as `id`, until a peer takes it up or it closes.
  TcpTarget(const ChannelId& id, std::shared_ptr<TargetState> state,
            std::shared_ptr<Exports> exports, std::shared_ptr<Offers> offers)
      : id_(id),
        state_(std::move(state)),
        exports_(std::move(exports)),
        offers_(std::move(offers)) {
    offers_->add(id_, state_);
  }
  ~TcpTarget() override { close(); }

  Result<Region> allocate_writable(uint64_t bytes) override;
  size_t poll(std::span<uint32_t> immediates) override { return state_->pop(immediates); }
  void wait(uint64_t deadline_ns) override { state_->wait(deadline_ns); }
  void close() override;

 private:
  const ChannelId id_;
  const std::shared_ptr<TargetState> state_;
  const std::shared_ptr<Exports> exports_;
  const std::shared_ptr<Offers> offers_;
};

}  // namespace farpage::tcp
