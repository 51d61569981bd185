#pragma once

#include <memory>

#include "base/status.h"
#include "transport/cuda/driver.h"

namespace farpage::cuda {

// Loads the driver and brings it up. It fails with a sentence where there is none, an old one, or
// no device. Any thread.
Result<Driver> start_driver(const char* library = "libcuda.so.1");

// A device's primary context, which CUDA's runtime and the engines use too. It is retained as long
// as this lives. Any thread.
class GpuContext {
 public:
  static Result<std::shared_ptr<const GpuContext>> retain(const Driver& driver, int device);
  ~GpuContext();
  GpuContext(const GpuContext&) = delete;
  GpuContext& operator=(const GpuContext&) = delete;

  const Driver& driver() const { return driver_; }
  int device() const { return device_; }
  Context get() const { return context_; }

 private:
  GpuContext(const Driver& driver, int device, Context context)
      : driver_(driver), device_(device), context_(context) {}

  const Driver driver_;
  const int device_;
  const Context context_;
};

// A capture of a stream by one thread forbids others' calls that are none of its business, and is
// lost by them, unless they have this mode. Returns the result, and the mode that the thread had.
inline int relax_capture(const Driver& driver, int& mode) {
  mode = kCaptureRelaxed;
  return driver.exchange_capture_mode(&mode);
}

// The context is current on this thread as long as this lives, and then what was so before: for
// calls on threads of the caller's, while any thread may capture a stream.
class CurrentContext {
 public:
  explicit CurrentContext(const GpuContext& context)
      : driver_(context.driver()), result_(driver_.push_context(context.get())) {
    if (result_ == kSuccess) is_relaxed_ = relax_capture(driver_, mode_) == kSuccess;
  }
  ~CurrentContext() {
    if (is_relaxed_) driver_.exchange_capture_mode(&mode_);
    Context popped = nullptr;
    if (result_ == kSuccess) driver_.pop_context(&popped);
  }
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;

  int result() const { return result_; }

 private:
  const Driver& driver_;
  const int result_;
  bool is_relaxed_ = false;
  int mode_ = 0;
};

}  // namespace farpage::cuda
