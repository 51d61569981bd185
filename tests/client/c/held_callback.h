#pragma once

#include <farpage/farpage.h>

#include <latch>

namespace farpage {

// A notification whose callback stands still until let_go(): its operation is done, but not
// released, and a client of one lane does nothing else.
class HeldCallback {
 public:
  HeldCallback() {
    notification_.callback = [](void* self) { static_cast<HeldCallback*>(self)->hold(); };
    notification_.context = this;
  }

  const farpage_notification_t* notification() const { return &notification_; }
  void wait_entered() { entered_.wait(); }
  void let_go() { let_go_.count_down(); }

 private:
  void hold() {
    entered_.count_down();
    let_go_.wait();
  }

  farpage_notification_t notification_ = FARPAGE_NOTIFICATION_INIT;
  std::latch entered_{1};
  std::latch let_go_{1};
};

}  // namespace farpage
