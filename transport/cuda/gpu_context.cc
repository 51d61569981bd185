#include "transport/cuda/gpu_context.h"

#include <string>

namespace farpage::cuda {

Result<Driver> start_driver(const char* library) {
  auto driver = load_driver(library);
  if (!driver) return driver;
  if (const int result = driver->init(0); result != kSuccess) {
    return fail(
        Code::kUnavailable,
        driver_error(*driver, result, "CUDA's driver does not start") +
            ": `nvidia-smi` says what it sees, and in a container GPUs must be given to it");
  }
  return driver;
}

Result<std::shared_ptr<const GpuContext>> GpuContext::retain(const Driver& driver, int device) {
  Context context = nullptr;
  const int result = driver.retain_context(&context, device);
  if (result != kSuccess) {
    return fail(Code::kUnavailable, driver_error(driver, result,
                                                 "the primary context of cuda:" +
                                                     std::to_string(device) + " is not to be had"));
  }
  return std::shared_ptr<const GpuContext>(new GpuContext(driver, device, context));
}

// Of a context that an error has ended nothing goes back, and nobody needs it.
GpuContext::~GpuContext() {
  driver_.release_context(device_);
}

}  // namespace farpage::cuda
