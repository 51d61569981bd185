// CUDA Driver API, Memory Management: copies and fills on a stream.

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "tests/transport/cuda/fake/state.h"
#include "tests/transport/cuda/fake/streams.h"

namespace farpage::cuda {
namespace {

// Where the fake reaches what a copy touches on the device; null: the call is wrong.
std::byte* on_device(const Call& call, uint64_t address, size_t bytes, bool to_write,
                     Ranges& uses) {
  const auto range = find_range(state().ranges, address);
  const bool whole = range != nullptr && range->covers(address, bytes, to_write);
  if (!whole || range->device != call.context->device) return nullptr;
  uses.push_back(range);
  return range->memory + (address - range->base);
}

// CUDA takes pageable memory, and copies it at once or through a buffer of its own; here it is an
// error, since the caller meant the copy to be asynchronous.
bool is_pinned(const void* memory, size_t bytes, bool to_write, Ranges& uses) {
  const auto range = find_host_range(state().ranges, memory, bytes);
  if (range == nullptr || (to_write && range->read_only)) return false;
  uses.push_back(range);
  return true;
}

// Whether it is this copy's turn (FakeSettings::spoil_every).
bool spoils_one() {
  State& all = state();
  const uint64_t every = all.settings.spoil_every;
  return ++all.copies_to_devices % std::max(every, uint64_t{1}) == 0 && every > 0;
}

Operation copying(std::byte* to, const std::byte* from, size_t bytes, Ranges uses, bool spoils) {
  const auto run = [=] {
    std::memcpy(to, from, bytes);
    if (spoils) to[bytes - 1] ^= std::byte{1};
    return kSuccess;
  };
  return {.ready = {}, .run = run, .polls = false, .uses = std::move(uses)};
}

constexpr const char* kOutOfRange = "memory of this device, or pinned memory, is out of range";

int copy(const Call& call, Stream stream, std::byte* to, const std::byte* from, size_t bytes,
         Ranges uses, bool spoils = false) {
  if (to == nullptr || from == nullptr) return call.misused(kOutOfRange);
  enqueue(stream, copying(to, from, bytes, std::move(uses), spoils));
  return kSuccess;
}

}  // namespace

extern "C" {

// The three return before the copy is done. A range that is not whole is CUDA_ERROR_INVALID_VALUE.
int cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t bytes, Stream stream) {
  Call call("cuMemcpyHtoDAsync_v2", Needs::kContext);
  const Stream on = call.result == kSuccess ? call.stream_of(stream) : nullptr;
  if (on == nullptr || call.is_refused()) return call.result;
  Ranges uses;
  std::byte* const target = on_device(call, to, bytes, true, uses);
  const bool pinned = is_pinned(from, bytes, false, uses);
  return copy(call, on, target, pinned ? static_cast<const std::byte*>(from) : nullptr, bytes,
              std::move(uses), spoils_one());
}

int cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t bytes, Stream stream) {
  Call call("cuMemcpyDtoHAsync_v2", Needs::kContext);
  const Stream on = call.result == kSuccess ? call.stream_of(stream) : nullptr;
  if (on == nullptr) return call.result;
  Ranges uses;
  const std::byte* const source = on_device(call, from, bytes, false, uses);
  const bool pinned = is_pinned(to, bytes, true, uses);
  return copy(call, on, pinned ? static_cast<std::byte*>(to) : nullptr, source, bytes,
              std::move(uses));
}

int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, Stream stream) {
  Call call("cuMemcpyDtoDAsync_v2", Needs::kContext);
  const Stream on = call.result == kSuccess ? call.stream_of(stream) : nullptr;
  if (on == nullptr) return call.result;
  Ranges uses;
  std::byte* const target = on_device(call, to, bytes, true, uses);
  const std::byte* const source = on_device(call, from, bytes, false, uses);
  if (target != nullptr && source != nullptr && target < source + bytes &&
      source < target + bytes) {
    return call.misused("what is copied overlaps");
  }
  return copy(call, on, target, source, bytes, std::move(uses));
}

// "The batch as a whole executes in stream order but copies within a batch are not guaranteed to
// execute in any specific order"; the stream "must not be legacy NULL stream". CUDA may have begun
// some of a batch that it refuses, and the fake begins half of one that a test lets it refuse. It
// takes one set of attributes, between pinned memory and the device's.
int cuMemcpyBatchAsync_v2(uint64_t* to, uint64_t* from, size_t* bytes, size_t count,
                          CopyAttributes* attributes, size_t* attributes_from,
                          size_t attributes_count, Stream stream) {
  Call call("cuMemcpyBatchAsync_v2", Needs::kContext);
  const int refused = call.result;
  call.context = current_context();
  if (call.context == nullptr || call.context->error != kSuccess) return refused;
  call.result = kSuccess;
  if (stream == nullptr) return call.misused("a batch of copies is on the default stream");
  const Stream on = call.stream_of(stream);
  if (on == nullptr || call.is_refused()) return call.result;
  const bool is_one_set = attributes_count == 1 && attributes_from[0] == 0;
  if (count == 0 || !is_one_set || attributes->source_order != 1) {
    return call.misused("a batch has no copies, or other attributes than the fake takes");
  }
  std::vector<Operation> copies;
  for (size_t i = 0; i < count; ++i) {
    Ranges uses;
    auto* target = reinterpret_cast<std::byte*>(to[i]);
    const auto* source = reinterpret_cast<const std::byte*>(from[i]);
    const bool is_from_host = is_pinned(source, bytes[i], false, uses);
    const bool is_to_host = !is_from_host && is_pinned(target, bytes[i], true, uses);
    if (!is_to_host) target = on_device(call, to[i], bytes[i], true, uses);
    if (!is_from_host) source = on_device(call, from[i], bytes[i], false, uses);
    if (target == nullptr || source == nullptr) return call.misused(kOutOfRange);
    const bool spoils = is_from_host && spoils_one();
    copies.push_back(copying(target, source, bytes[i], std::move(uses), spoils));
  }
  std::ranges::shuffle(copies, state().random);
  if (refused != kSuccess) copies.resize(count / 2);
  for (Operation& each : copies) enqueue(on, std::move(each));
  return refused;
}

// "Sets the memory range of N 8-bit values to the specified value uc."
int cuMemsetD8Async(uint64_t at, unsigned char value, size_t bytes, Stream stream) {
  Call call("cuMemsetD8Async", Needs::kContext);
  const Stream on = call.result == kSuccess ? call.stream_of(stream) : nullptr;
  if (on == nullptr) return call.result;
  Ranges uses;
  std::byte* const target = on_device(call, at, bytes, true, uses);
  if (target == nullptr) return call.misused("memory of this device is out of range");
  const auto run = [=] {
    std::memset(target, value, bytes);
    return kSuccess;
  };
  enqueue(on, {.ready = {}, .run = run, .polls = false, .uses = std::move(uses)});
  return kSuccess;
}

}  // extern "C"
}  // namespace farpage::cuda
