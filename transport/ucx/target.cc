#include "transport/ucx/target.h"

#include <algorithm>
#include <chrono>

#include "base/clock.h"
#include "transport/ucx/regions.h"
#include "transport/ucx/target_worker.h"

namespace farpage::ucx {
namespace {

constexpr uint64_t kLongestWaitNs = 3'600 * kSecond;

}  // namespace

bool TargetState::push(uint32_t immediate) {
  std::lock_guard lock(mutex_);
  if (immediates_.size() == kMostImmediates) return false;
  immediates_.push_back(immediate);
  arrived_.notify_all();
  return true;
}

size_t TargetState::pop(std::span<uint32_t> immediates) {
  std::lock_guard lock(mutex_);
  const size_t popped = std::min(immediates.size(), immediates_.size());
  for (uint32_t& immediate : immediates.first(popped)) {
    immediate = immediates_.front();
    immediates_.pop_front();
  }
  return popped;
}

void TargetState::wait(uint64_t deadline_ns) {
  const uint64_t now = boottime_clock().now_ns();
  if (now >= deadline_ns) return;
  std::unique_lock lock(mutex_);
  arrived_.wait_for(lock, std::chrono::nanoseconds(std::min(deadline_ns - now, kLongestWaitNs)),
                    [this] { return !immediates_.empty() || closed_; });
}

void TargetState::close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
  arrived_.notify_all();
}

Result<Region> UcxTarget::allocate_writable(uint64_t bytes) {
  return make_shared_region(worker_->context(), bytes, Access::kRemoteWrite);
}

void UcxTarget::close() {
  state_->close();
  worker_->remove(*state_);
}

}  // namespace farpage::ucx
