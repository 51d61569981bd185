#include "transport/tcp/target.h"

#include <algorithm>
#include <chrono>

#include "base/clock.h"

namespace farpage::tcp {
namespace {

constexpr uint64_t kLongestWaitNs = 3'600 * kSecond;

}  // namespace

bool TargetState::attach(std::function<void()> wake) {
  std::lock_guard lock(mutex_);
  if (attached_ || is_closed()) return false;
  attached_ = true;
  wake_ = std::move(wake);
  return true;
}

bool TargetState::push(uint32_t immediate) {
  std::lock_guard lock(mutex_);
  full_ = count_ == kMostImmediates;
  if (full_) return false;
  immediates_[(head_ + count_++) % kMostImmediates] = immediate;
  arrived_.notify_all();
  return true;
}

size_t TargetState::pop(std::span<uint32_t> immediates) {
  std::lock_guard lock(mutex_);
  const size_t popped = std::min(immediates.size(), count_);
  for (size_t i = 0; i < popped; ++i) {
    immediates[i] = immediates_[head_];
    head_ = (head_ + 1) % kMostImmediates;
  }
  count_ -= popped;
  if (popped > 0 && full_) {
    full_ = false;
    wake_();
  }
  return popped;
}

void TargetState::wait(uint64_t deadline_ns) {
  const uint64_t now = boottime_clock().now_ns();
  if (now >= deadline_ns) return;
  std::unique_lock lock(mutex_);
  arrived_.wait_for(lock, std::chrono::nanoseconds(std::min(deadline_ns - now, kLongestWaitNs)),
                    [this] { return count_ > 0 || is_closed(); });
}

void TargetState::close() {
  std::lock_guard lock(mutex_);
  if (closed_.exchange(true)) return;
  if (wake_) wake_();
  arrived_.notify_all();
}

Result<Region> TcpTarget::allocate_writable(uint64_t bytes) {
  return make_writable(exports_, bytes, state_->number);
}

void TcpTarget::close() {
  offers_->withdraw(id_);
  state_->close();
  exports_->wait_for_uses();  // every later look sees that it is closed
}

}  // namespace farpage::tcp
