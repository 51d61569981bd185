// CUDA Driver API, Stream Memory Operations, and cuFlushGPUDirectRDMAWrites.

#include <atomic>

#include "tests/transport/cuda/fake/state.h"
#include "tests/transport/cuda/fake/streams.h"

namespace farpage::cuda {
namespace {

constexpr int kScopeOwner = 100;
constexpr int kScopeAllDevices = 200;
constexpr unsigned kNoBarrier = 1;

// Where the fake reaches the word, which `uses` keeps; null: the call is wrong.
uint64_t* word_at(const Call& call, uint64_t address, bool to_write, Ranges& uses) {
  if (address % sizeof(uint64_t) != 0) return nullptr;
  const auto range = find_range(state().ranges, address);
  const bool whole = range != nullptr && range->covers(address, sizeof(uint64_t), to_write);
  if (!whole || range->device != call.context->device) return nullptr;
  uses.push_back(range);
  return reinterpret_cast<uint64_t*>(range->memory + (address - range->base));
}

bool holds(uint64_t word, uint64_t value, unsigned condition) {
  if (condition == kWaitEqual) return word == value;
  if (condition == kWaitAnd) return (word & value) != 0;
  return static_cast<int64_t>(word - value) >= 0;
}

}  // namespace

extern "C" {

// "Enqueues a synchronization of the stream on the given memory location. Work ordered after the
// operation will block until the given condition on the memory is satisfied." GEQ is the "cyclic
// comparison which ignores wraparound". CU_STREAM_WAIT_VALUE_NOR is not supported. FLUSH only by
// the attribute CAN_FLUSH_REMOTE_WRITES.
int cuStreamWaitValue64_v2(Stream stream, uint64_t address, uint64_t value, unsigned flags) {
  Call call("cuStreamWaitValue64_v2", Needs::kContext);
  const Stream on = call.result == kSuccess ? call.stream_of(stream) : nullptr;
  if (on == nullptr) return call.result;
  const FakeSettings& settings = state().settings;
  const bool flush = (flags & kWaitFlush) != 0;
  const unsigned condition = flags & ~kWaitFlush;
  if (!settings.stream_wait_values || condition > kWaitAnd) return kNotSupported;
  if (flush && (settings.flush_options & 2) == 0) return kNotSupported;
  Ranges uses;
  uint64_t* const word = word_at(call, address, false, uses);
  if (word == nullptr) return call.misused("the word is out of range, or not a multiple of 8");
  const auto ready = [=] {
    return holds(std::atomic_ref(*word).load(std::memory_order_acquire), value, condition);
  };
  const auto run = [flush, device = call.context->device] {
    const std::lock_guard lock(state().mutex);
    if (flush) make_visible(device);
    return kSuccess;
  };
  enqueue(on, {.ready = ready, .run = run, .polls = true, .uses = std::move(uses)});
  return kSuccess;
}

// By default the call "will provide a memory fence before the" write (cuda.h, at
// CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER).
int cuStreamWriteValue64_v2(Stream stream, uint64_t address, uint64_t value, unsigned flags) {
  Call call("cuStreamWriteValue64_v2", Needs::kContext);
  const Stream on = call.result == kSuccess ? call.stream_of(stream) : nullptr;
  if (on == nullptr) return call.result;
  if (!state().settings.stream_wait_values) return kNotSupported;
  if (flags > kNoBarrier) return call.misused("a flag is unknown");
  Ranges uses;
  uint64_t* const word = word_at(call, address, true, uses);
  if (word == nullptr) return call.misused("the word is out of range, or not a multiple of 8");
  const auto run = [=] {
    std::atomic_ref(*word).store(
        value, flags == kNoBarrier ? std::memory_order_relaxed : std::memory_order_release);
    return kSuccess;
  };
  enqueue(on, {.ready = {}, .run = run, .polls = false, .uses = std::move(uses)});
  return kSuccess;
}

// "Blocks until remote writes are visible to the specified scope." Within the scope of the ordering
// attribute it does nothing; otherwise FLUSH_WRITES_OPTIONS must have the host's bit.
int cuFlushGPUDirectRDMAWrites(int target, int scope) {
  const Call call("cuFlushGPUDirectRDMAWrites", Needs::kContext);
  if (call.result != kSuccess) return call.result;
  if (target != 0 || (scope != kScopeOwner && scope != kScopeAllDevices)) {
    return call.misused("the target or the scope is unknown");
  }
  if (scope <= state().settings.writes_ordering) return kSuccess;
  if ((state().settings.flush_options & 1) == 0) return kNotSupported;
  make_visible(call.context->device);
  return kSuccess;
}

}  // extern "C"
}  // namespace farpage::cuda
