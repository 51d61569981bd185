#pragma once

#include <gtest/gtest.h>
#include <pthread.h>

namespace farpage {

// While it lives, the process gets no thread: the stack that each would have fits in no memory.
class NoMoreThreads {
 public:
  NoMoreThreads() {
    pthread_getattr_default_np(&before_);
    pthread_attr_t greedy = before_;
    constexpr size_t kStackBytes = size_t{1} << 60;
    EXPECT_EQ(pthread_attr_setstacksize(&greedy, kStackBytes), 0);
    EXPECT_EQ(pthread_setattr_default_np(&greedy), 0);
  }
  ~NoMoreThreads() { pthread_setattr_default_np(&before_); }

 private:
  pthread_attr_t before_;
};

}  // namespace farpage
