#pragma once

#include "tests/transport/cuda/fake/device/memory.h"

namespace farpage::cuda {

// What one launch touches. An address that is wrong is noted, and nothing is read or written there:
// on a GPU it would end the context.
class DeviceAccess {
 public:
  explicit DeviceAccess(Context context) : context_(context) {}
  ~DeviceAccess();
  DeviceAccess(const DeviceAccess&) = delete;
  DeviceAccess& operator=(const DeviceAccess&) = delete;

  // Where the fake reaches them; null: they are not there, or not aligned.
  const std::byte* read(uint64_t address, uint64_t bytes, uint64_t alignment);
  std::byte* write(uint64_t address, uint64_t bytes, uint64_t alignment);
  void note(int error) { error_ = error_ == 0 ? error : error_; }
  int error() const { return error_; }

 private:
  std::byte* reach(uint64_t address, uint64_t bytes, uint64_t alignment, bool to_write);
  Context context_;
  Ranges used_;
  int error_ = 0;
};

}  // namespace farpage::cuda
