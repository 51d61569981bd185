// CUDA Driver API, Event Management, and cuStreamWaitEvent.

#include <chrono>

#include "tests/transport/cuda/fake/state.h"
#include "tests/transport/cuda/fake/streams.h"

namespace farpage::cuda {
namespace {

double now_ms() {
  return std::chrono::duration<double, std::milli>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

extern "C" {

int cuEventCreate(Event* event, unsigned flags) {
  const Call call("cuEventCreate", Needs::kContext);
  if (call.result != kSuccess) return call.result;
  if (flags > 3) return call.misused("a flag is unknown, or is of another process's events");
  state().events.push_back(std::make_unique<EventTag>());
  *event = state().events.back().get();
  (*event)->context = call.context;
  (*event)->timed = (flags & kEventWithoutTiming) == 0;
  return kSuccess;
}

// "An event may be destroyed before it is complete (i.e., while cuEventQuery() would return
// CUDA_ERROR_NOT_READY)". Nobody may use it afterwards.
int cuEventDestroy_v2(Event event) {
  Call call("cuEventDestroy_v2", Needs::kContext);
  if (is_sticky(call.result) && call.context != nullptr) call.result = kSuccess;
  if (call.result != kSuccess || call.event_of(event) == nullptr) return call.result;
  event->destroyed = true;
  return call.context->error;
}

// "Captures in hEvent the contents of hStream at the time of this call." Both are of one context. A
// later recording takes the place of this one.
int cuEventRecord(Event event, Stream stream) {
  Call call("cuEventRecord", Needs::kContext);
  if (call.result != kSuccess || call.event_of(event) == nullptr) return call.result;
  const Stream on = call.stream_of(stream);
  if (on == nullptr || call.is_refused()) return call.result;
  const auto recording = std::make_shared<Recording>();
  event->recording = recording;
  const auto run = [recording] {
    const std::lock_guard lock(state().mutex);
    recording->done = true;
    recording->at_ms = now_ms();
    return kSuccess;
  };
  enqueue(on, {.ready = {}, .run = run, .polls = false, .uses = {}});
  return kSuccess;
}

// An event that was never recorded is done.
int cuEventQuery(Event event) {
  Call call("cuEventQuery", Needs::kContext);
  if (call.result != kSuccess || call.event_of(event) == nullptr) return call.result;
  return event->recording == nullptr || event->recording->done ? kSuccess : kNotReady;
}

int cuEventSynchronize(Event event) {
  Call call("cuEventSynchronize", Needs::kContext);
  if (call.result != kSuccess || call.event_of(event) == nullptr) return call.result;
  const auto recording = event->recording;
  state().changed.wait(call.lock, [&] {
    return recording == nullptr || recording->done || call.context->error != kSuccess ||
           state().ending;
  });
  return call.context->error;
}

// CUDA_ERROR_INVALID_HANDLE for an event without a time or a recording, CUDA_ERROR_NOT_READY for
// one that is not complete.
int cuEventElapsedTime(float* elapsed_ms, Event from, Event to) {
  Call call("cuEventElapsedTime", Needs::kContext);
  if (call.result != kSuccess || call.event_of(from) == nullptr || call.event_of(to) == nullptr) {
    return call.result;
  }
  for (const Event event : {from, to}) {
    if (!event->timed || event->recording == nullptr) {
      return call.misused("an event has no time", kInvalidHandle);
    }
    if (!event->recording->done) return kNotReady;
  }
  *elapsed_ms = static_cast<float>(to->recording->at_ms - from->recording->at_ms);
  return kSuccess;
}

// "Makes all future work submitted to hStream wait for all work captured in hEvent", by the latest
// recording at this call. Without a recording it waits for nothing. CUDA takes an event of another
// context; the fake does not.
int cuStreamWaitEvent(Stream stream, Event event, unsigned flags) {
  Call call("cuStreamWaitEvent", Needs::kContext);
  const Stream on = call.result == kSuccess ? call.stream_of(stream) : nullptr;
  if (on == nullptr || call.event_of(event) == nullptr) return call.result;
  if (flags > 1) return call.misused("a flag is unknown");
  const auto recording = event->recording;
  if (recording == nullptr) return kSuccess;
  const auto ready = [recording] { return recording->done; };
  enqueue(on, {.ready = ready, .run = {}, .polls = false, .uses = {}});
  return kSuccess;
}

}  // extern "C"
}  // namespace farpage::cuda
