#pragma once

#include <sys/types.h>
#include <unistd.h>

namespace farpage::c_api {

// The process that made a handle. Its fork has the handle's memory, but neither its threads nor the
// state of its locks: it may not touch what is inside.
class Owner {
 public:
  bool is_here() const noexcept { return process_ == ::getpid(); }
  pid_t process() const noexcept { return process_; }

 private:
  pid_t process_ = ::getpid();
};

}  // namespace farpage::c_api
