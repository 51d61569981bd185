#pragma once

#include <cstdint>
#include <utility>

namespace farpage {

// A descriptor of a lock or of a listening socket, which the child of a fork closes: the child
// would keep the lock or the socket for as long as it lives, although its parent has ended. The
// descriptor stays its owner's, who may close it first. Any thread.
class ClosedInChild {
 public:
  ClosedInChild() = default;
  explicit ClosedInChild(int fd);
  ClosedInChild(ClosedInChild&& other) noexcept : number_(std::exchange(other.number_, 0)) {}
  ClosedInChild& operator=(ClosedInChild&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~ClosedInChild();

 private:
  uint64_t number_ = 0;  // 0: of no descriptor
};

}  // namespace farpage
