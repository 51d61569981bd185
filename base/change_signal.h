#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "base/unique_fd.h"

namespace farpage {

// Tells one waiter of a runtime's changes through a descriptor, which the runtime writes only when
// the waiter has asked. The waiter arms it, and then looks at Runtime::changes(): what comes after
// that look makes the descriptor readable.
//
// tell() in any thread; everything else in the waiter's.
class ChangeSignal {
 public:
  // nullptr: the process has no descriptors left.
  static std::shared_ptr<ChangeSignal> make();
  explicit ChangeSignal(UniqueFd fd) : fd_(std::move(fd)) {}

  int descriptor() const { return fd_.get(); }
  void arm() { armed_.store(true); }
  // Once the descriptor is readable, so that it is so no longer.
  void clear();

  void tell();

 private:
  const UniqueFd fd_;
  std::atomic<bool> armed_{false};
};

}  // namespace farpage
