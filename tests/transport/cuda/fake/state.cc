#include "tests/transport/cuda/fake/state.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "tests/transport/cuda/fake/programs/environment.h"
#include "tests/transport/cuda/fake/streams.h"

namespace farpage::cuda {

State& state() {
  static auto* const only = [] {
    auto* const made = new State;  // streams may run until the process ends
    made->settings = settings_from_environment();
    made->random.seed(made->settings.seed);
    return made;
  }();
  return *only;
}

Context& current_context() {
  thread_local Context current = nullptr;
  return current;
}

std::vector<Context>& pushed_contexts() {
  thread_local std::vector<Context> under;
  return under;
}

int& capture_mode() {
  thread_local int mode = 0;
  return mode;
}

bool& in_host_function() {
  thread_local bool inside = false;
  return inside;
}

int breaks_rule(const char* function, const std::string& rule, int result) {
  ++state().broken_rules;
  state().last_broken_rule = std::string(function) + ": " + rule;
  return result;
}

void break_context(Context context, int result) {
  if (context->error == kSuccess) context->error = result;
  state().changed.notify_all();
}

uint64_t device_bytes_in_use(int device) {
  std::vector<const Physical*> counted;
  uint64_t sum = 0;
  const auto count = [&](const std::shared_ptr<Physical>& physical) {
    if (physical->device() != device || std::ranges::count(counted, physical.get()) > 0) return;
    counted.push_back(physical.get());
    sum += physical->bytes();
  };
  for (const auto& [handle, physical] : state().handles) count(physical);
  for (const auto& range : state().ranges) {
    for (const auto& [offset, mapping] : range->mappings) count(mapping.physical);
  }
  return sum;
}

void make_visible(int device) {
  std::erase_if(state().held_writes, [&](const HeldWrite& write) {
    const auto range = find_range(state().ranges, write.address);
    if (range == nullptr || !range->covers(write.address, write.bytes.size(), true)) return true;
    if (range->device != device) return false;
    std::memcpy(range->memory + (write.address - range->base), write.bytes.data(),
                write.bytes.size());
    return true;
  });
}

namespace {

// Of those that a capture in global mode forbids to all threads of that mode ("potentially unsafe
// API calls", cuThreadExchangeStreamCaptureMode), the ones that Farpage and its tests make.
bool is_unsafe(std::string_view function) {
  constexpr std::array kUnsafe = {
      "cuEventQuery",         "cuEventSynchronize",  "cuStreamQuery",
      "cuStreamSynchronize",  "cuMemAlloc_v2",       "cuMemFree_v2",
      "cuMemHostRegister_v2", "cuMemHostUnregister", "cuModuleLoadData"};
  return std::ranges::find(kUnsafe, function) != kUnsafe.end();
}

void lose_captures(int& result) {
  for (const auto& stream : state().streams) {
    if (stream->captured == nullptr || stream->capture_mode != 0) continue;
    stream->capture_lost = true;
    result = kCaptureUnsupported;
  }
}

}  // namespace

Call::Call(const char* name, Needs needs) : function(name), lock(state().mutex) {
  State& all = state();
  const auto counted = all.calls.find(std::string_view(name));
  ++(counted == all.calls.end() ? all.calls[name] : counted->second);
  const auto fault = all.faults.find(std::string_view(name));
  if (fault != all.faults.end() && --fault->second.calls_left == 0) {
    result = fault->second.result;
    all.faults.erase(fault);
    if (is_sticky(result) && current_context() != nullptr) break_context(current_context(), result);
    return;
  }
  if (in_host_function()) {
    // CUDA Driver API, cuLaunchHostFunc: "The host function must not make any CUDA API calls".
    result = misused("called by a host function of a stream", kNotPermitted);
  } else if (!all.initialized) {
    result = kNotInitialized;
  } else if (needs == Needs::kContext) {
    context = current_context();
    const bool known = std::ranges::any_of(
        all.contexts, [this](const auto& it) { return it.get() == context && it->retained > 0; });
    result = known ? context->error : kInvalidContext;
  }
  if (result == kSuccess && is_unsafe(name) && capture_mode() == 0) lose_captures(result);
}

bool Call::is_refused() {
  State& all = state();
  const uint64_t every = all.settings.refuse_every;
  if (every == 0 || ++all.refusable % every != 0) return false;
  ++all.refused;
  result = kOutOfMemory;
  return true;
}

Stream Call::stream_of(Stream stream) {
  if (stream == nullptr) return default_stream(context);
  const auto& streams = state().streams;
  const bool known = std::ranges::any_of(
      streams, [stream](const auto& it) { return it.get() == stream && !it->destroyed; });
  if (!known) {
    result = misused("there is no such stream, or it was destroyed", kInvalidHandle);
  } else if (stream->context != context) {
    result = misused("the stream is of another context than the current one", kInvalidHandle);
  }
  return result == kSuccess ? stream : nullptr;
}

Event Call::event_of(Event event) {
  const auto& events = state().events;
  const bool known = std::ranges::any_of(
      events, [event](const auto& it) { return it.get() == event && !it->destroyed; });
  if (!known) {
    result = misused("there is no such event, or it was destroyed", kInvalidHandle);
  } else if (event->context != context) {
    result = misused("the event is of another context than the current one", kInvalidHandle);
  }
  return result == kSuccess ? event : nullptr;
}

}  // namespace farpage::cuda
