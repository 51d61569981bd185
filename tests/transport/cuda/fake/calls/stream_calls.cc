// CUDA Driver API, Stream Management.

#include "tests/transport/cuda/fake/state.h"
#include "tests/transport/cuda/fake/streams.h"

namespace farpage::cuda {

extern "C" {

// Flags: CU_STREAM_DEFAULT or CU_STREAM_NON_BLOCKING.
int cuStreamCreate(Stream* stream, unsigned flags) {
  const Call call("cuStreamCreate", Needs::kContext);
  if (call.result != kSuccess) return call.result;
  if (flags > 1) return call.misused("a flag is unknown");
  state().streams.push_back(start_stream(call.context));
  *stream = state().streams.back().get();
  (*stream)->held = state().all_held;
  return kSuccess;
}

// With work under way, "the function will return immediately and the resources associated with
// hStream will be released automatically once the device has completed all work in hStream." It
// goes with a sticky error, too, so that nothing leaks.
int cuStreamDestroy_v2(Stream stream) {
  Call call("cuStreamDestroy_v2", Needs::kContext);
  if (is_sticky(call.result) && call.context != nullptr) call.result = kSuccess;
  if (call.result != kSuccess) return call.result;
  if (stream == nullptr) return call.misused("the default stream stays", kInvalidHandle);
  if (call.stream_of(stream) == nullptr) return call.result;
  stream->destroyed = true;
  state().changed.notify_all();
  return call.context->error;
}

// Waits "until the device has completed all operations in the stream".
int cuStreamSynchronize(Stream stream) {
  Call call("cuStreamSynchronize", Needs::kContext);
  const Stream on = call.result == kSuccess ? call.stream_of(stream) : nullptr;
  if (on == nullptr) return call.result;
  state().changed.wait(call.lock, [&] {
    return on->queue.empty() || call.context->error != kSuccess || state().ending;
  });
  return call.context->error;
}

int cuStreamQuery(Stream stream) {
  Call call("cuStreamQuery", Needs::kContext);
  const Stream on = call.result == kSuccess ? call.stream_of(stream) : nullptr;
  if (on == nullptr) return call.result;
  return on->queue.empty() ? kSuccess : kNotReady;
}

// "The function will be called after currently enqueued work and will block work added after it",
// and "will not be called in the event of an error in the CUDA context". It must not call CUDA.
int cuLaunchHostFunc(Stream stream, HostFunction function, void* argument) {
  Call call("cuLaunchHostFunc", Needs::kContext);
  const Stream on = call.result == kSuccess ? call.stream_of(stream) : nullptr;
  if (on == nullptr) return call.result;
  if (function == nullptr) return call.misused("there is no function");
  const auto run = [=] {
    in_host_function() = true;
    function(argument);
    in_host_function() = false;
    return kSuccess;
  };
  enqueue(on, {.ready = {}, .run = run, .polls = false, .uses = {}});
  return kSuccess;
}

}  // extern "C"
}  // namespace farpage::cuda
