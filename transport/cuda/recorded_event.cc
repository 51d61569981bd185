#include "transport/cuda/recorded_event.h"

#include <string>

namespace farpage::cuda {

Result<std::shared_ptr<const RecordedEvent>> RecordedEvent::record(
    const std::shared_ptr<const GpuContext>& context, Stream stream) {
  const std::shared_ptr<RecordedEvent> made(new RecordedEvent(context));
  const Driver& driver = context->driver();
  const CurrentContext current(*context);
  int result = current.result();
  int capture = 0;
  if (result == kSuccess) result = driver.capture_state(stream, &capture);
  if (result == kSuccess && capture != 0) {
    return fail(Code::kInvalid, "the stream is being captured: put after the capture");
  }
  if (result == kSuccess) result = driver.make_event(&made->event_, kEventWithoutTiming);
  if (result == kSuccess) result = driver.record_event(made->event_, stream);
  if (result == kSuccess) return made;
  return fail(Code::kUnavailable, driver_error(driver, result,
                                               "cannot wait for a stream of cuda:" +
                                                   std::to_string(context->device())));
}

// Work that it stands behind goes on.
RecordedEvent::~RecordedEvent() {
  if (event_ == nullptr) return;
  const CurrentContext current(*context_);
  context_->driver().destroy_event(event_);
}

}  // namespace farpage::cuda
