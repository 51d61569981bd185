#pragma once

#include <memory>
#include <utility>

#include "base/status.h"
#include "transport/cuda/gpu_context.h"

namespace farpage::cuda {

// An event that passes once all work has ended that was on a stream when it was recorded. Any
// thread.
class RecordedEvent {
 public:
  // `stream`: of this context; null: its default one. kInvalid: it is being captured.
  static Result<std::shared_ptr<const RecordedEvent>> record(
      const std::shared_ptr<const GpuContext>& context, Stream stream);
  ~RecordedEvent();
  RecordedEvent(const RecordedEvent&) = delete;
  RecordedEvent& operator=(const RecordedEvent&) = delete;

  Event get() const { return event_; }

 private:
  explicit RecordedEvent(std::shared_ptr<const GpuContext> context)
      : context_(std::move(context)) {}

  const std::shared_ptr<const GpuContext> context_;
  Event event_ = nullptr;
};

}  // namespace farpage::cuda
