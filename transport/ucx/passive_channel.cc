#include "transport/ucx/passive_channel.h"

#include <algorithm>
#include <chrono>

#include "base/clock.h"
#include "transport/ucx/passive_worker.h"
#include "transport/ucx/regions.h"

namespace farpage::ucx {
namespace {

constexpr uint64_t kLongestWaitNs = 3'600 * kSecond;

}  // namespace

bool PassiveState::push(uint32_t immediate) {
  std::lock_guard lock(mutex_);
  if (immediates_.size() == kMostImmediates) return false;
  immediates_.push_back(immediate);
  arrived_.notify_all();
  return true;
}

size_t PassiveState::pop(std::span<Completion> completions) {
  std::lock_guard lock(mutex_);
  const size_t popped = std::min(completions.size(), immediates_.size());
  for (Completion& completion : completions.first(popped)) {
    completion = {};
    completion.kind = CompletionKind::kImmediate;
    completion.immediate = immediates_.front();
    immediates_.pop_front();
  }
  return popped;
}

void PassiveState::wait(uint64_t deadline_ns) {
  const uint64_t now = boottime_clock().now_ns();
  if (now >= deadline_ns) return;
  std::unique_lock lock(mutex_);
  arrived_.wait_for(lock, std::chrono::nanoseconds(std::min(deadline_ns - now, kLongestWaitNs)),
                    [this] { return !immediates_.empty() || closed_; });
}

void PassiveState::close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
  arrived_.notify_all();
}

Result<Region> PassiveUcxChannel::allocate_writable(uint64_t bytes) {
  return make_shared_region(worker_->context(), bytes, Access::kRemoteWrite);
}

Result<RemoteRegion> PassiveUcxChannel::import_region(RegionExport) {
  return fail(Code::kInvalid, "the passive end of a ucx channel reaches no memory of its peer");
}

PostResult PassiveUcxChannel::post(std::span<const Operation>, uint64_t) {
  return {0, {Code::kInvalid, 0, "the passive end of a ucx channel posts nothing"}};
}

void PassiveUcxChannel::close() {
  state_->close();
  worker_->remove(*state_);
}

}  // namespace farpage::ucx
