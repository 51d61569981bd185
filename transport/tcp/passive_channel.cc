#include "transport/tcp/passive_channel.h"

#include <algorithm>
#include <chrono>

#include "base/clock.h"

namespace farpage::tcp {
namespace {

constexpr uint64_t kLongestWaitNs = 3'600 * kSecond;
constexpr size_t kPopBatch = 64;

}  // namespace

bool PassiveState::attach(std::function<void()> wake) {
  std::lock_guard lock(mutex_);
  if (attached_ || is_closed()) return false;
  attached_ = true;
  wake_ = std::move(wake);
  return true;
}

bool PassiveState::push(uint32_t immediate) {
  std::lock_guard lock(mutex_);
  full_ = count_ == kMostImmediates;
  if (full_) return false;
  immediates_[(head_ + count_++) % kMostImmediates] = immediate;
  arrived_.notify_all();
  return true;
}

size_t PassiveState::pop(std::span<uint32_t> immediates) {
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

void PassiveState::wait(uint64_t deadline_ns) {
  const uint64_t now = boottime_clock().now_ns();
  if (now >= deadline_ns) return;
  std::unique_lock lock(mutex_);
  arrived_.wait_for(lock, std::chrono::nanoseconds(std::min(deadline_ns - now, kLongestWaitNs)),
                    [this] { return count_ > 0 || is_closed(); });
}

void PassiveState::close() {
  std::lock_guard lock(mutex_);
  if (closed_.exchange(true)) return;
  if (wake_) wake_();
  arrived_.notify_all();
}

Result<Region> PassiveTcpChannel::allocate_writable(uint64_t bytes) {
  return make_exported_region(exports_, bytes, Access::kRemoteWrite, state_->number);
}

Result<RemoteRegion> PassiveTcpChannel::import_region(RegionExport) {
  return fail(Code::kInvalid, "the passive end of a tcp channel reaches no memory of its peer");
}

PostResult PassiveTcpChannel::post(std::span<const Operation>, uint64_t) {
  return {0, {Code::kInvalid, 0, "the passive end of a tcp channel posts nothing"}};
}

size_t PassiveTcpChannel::poll(std::span<Completion> completions) {
  std::array<uint32_t, kPopBatch> immediates;
  const size_t count =
      state_->pop(std::span(immediates).first(std::min(immediates.size(), completions.size())));
  for (size_t i = 0; i < count; ++i) {
    completions[i] = {};
    completions[i].kind = CompletionKind::kImmediate;
    completions[i].immediate = immediates[i];
  }
  return count;
}

void PassiveTcpChannel::close() {
  offers_->withdraw(id_);
  state_->close();
  exports_->wait_for_uses();  // whoever looks from now on sees that it is closed
}

}  // namespace farpage::tcp
