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

// The context is current on this thread as long as this lives, and then what was so before: for
// calls on threads of the caller's.
class CurrentContext {
 public:
  explicit CurrentContext(const GpuContext& context)
      : driver_(context.driver()), result_(driver_.push_context(context.get())) {}
  ~CurrentContext() {
    Context popped = nullptr;
    if (result_ == kSuccess) driver_.pop_context(&popped);
  }
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;

  int result() const { return result_; }

 private:
  const Driver& driver_;
  const int result_;
};

}  // namespace farpage::cuda
